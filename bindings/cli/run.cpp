// Streaming and measuring; see run.h.
#include "bindings/cli/run.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "bindings/cli/account.h"
#include "bindings/cli/progress.h"
#include "bindings/cli/sha256.h"
#include "bindings/cli/summary.h"

namespace sl::cli {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kSliceMs = 100;  // how soon a Ctrl-C is noticed in a wait

volatile sig_atomic_t interrupted = 0;

double seconds(Clock::duration time) {
    return std::chrono::duration<double>(time).count();
}

double own_cpu() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    auto in_seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
    };
    return in_seconds(usage.ru_utime) + in_seconds(usage.ru_stime);
}

// CPU seconds of the daemon and its workers since it began.
double daemon_cpu(sl_client* client) {
    nlohmann::json status = nlohmann::json::parse(status_text(client), nullptr, false);
    if (!status.is_object() || !status.contains("cpu_seconds")) return 0;
    const nlohmann::json& cpu = status["cpu_seconds"];
    return cpu.is_number() ? cpu.get<double>() : 0;
}

// From here on the first Ctrl-C only asks to stop; the second is the system's again.
void catch_interrupt() {
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted = 1; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    ::sigaction(SIGINT, &action, nullptr);
}

// What is kept of the batches' contents: hashes and ids, an epoch at a time.
class Keeper {
  public:
    Keeper(const RunOptions& options, RunResult& result) : options_(options), result_(result) {}

    // Returns the number of valid rows.
    std::uint64_t keep(const sl_batch* batch, std::uint32_t rows) {
        if (options_.hash) hash(batch);
        std::uint64_t valid = 0;
        for (std::uint32_t row = 0; row < rows; ++row) {
            sl_sample_info info{};
            info.struct_size = sizeof info;
            if (sl_batch_sample(batch, row, &info) != SL_OK || info.valid == 0) continue;
            ++valid;
            if (options_.ids) ids_.push_back(info.sample_id);
        }
        used_ = true;
        return valid;
    }

    void end_epoch() {
        if (!used_) return;
        used_ = false;
        if (options_.hash) result_.epoch_hashes.push_back(sha_.finish());
        if (options_.ids) result_.ids.push_back(std::move(ids_));
        ids_.clear();
    }

  private:
    // Every tensor's bytes, in the stream's order of tensors.
    void hash(const sl_batch* batch) {
        std::uint32_t count = 0;
        sl_batch_tensor_count(batch, &count);
        for (std::uint32_t i = 0; i < count; ++i) {
            sl_tensor tensor{};
            tensor.struct_size = sizeof tensor;
            if (sl_batch_tensor_at(batch, i, nullptr, &tensor) != SL_OK) continue;
            sha_.update({static_cast<const std::byte*>(tensor.data), tensor.bytes});
        }
    }

    const RunOptions& options_;
    RunResult& result_;
    Sha256 sha_;
    std::vector<std::uint64_t> ids_;
    bool used_ = false;
};

// sl_next in slices, so that an interrupt is noticed; SL_TIMEOUT then means "interrupted".
sl_status next(sl_stream* stream, Batch& batch, double& waited) {
    Clock::time_point start = Clock::now();
    sl_batch* taken = nullptr;
    sl_status status = SL_TIMEOUT;
    while (status == SL_TIMEOUT && interrupted == 0)
        status = sl_next(stream, kSliceMs, &taken);
    waited = seconds(Clock::now() - start);
    batch.reset(taken);
    return status;
}

std::int64_t reconnect_ms(const RunOptions& options) {
    if (!options.reconnect) return 0;
    if (*options.reconnect <= 0) return SL_NO_RECONNECT;
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(*options.reconnect * 1000));
}

// Says so where the stream has found another daemon since the last call.
void tell_of_reconnection(sl_stream* stream, std::uint64_t& known) {
    sl_stats stats{};
    stats.struct_size = sizeof stats;
    if (sl_stream_stats(stream, &stats) != SL_OK || stats.reconnects == known) return;
    known = stats.reconnects;
    std::cerr << "speedyctl: the daemon was lost; the stream goes on with another one\n";
}

std::uint64_t expected_samples(sl_stream* stream, const RunOptions& options) {
    sl_stream_info info{};
    info.struct_size = sizeof info;
    if (sl_stream_get_info(stream, &info) != SL_OK) return 0;
    std::uint64_t an_epoch = std::min(info.samples, info.batches_per_epoch * info.batch_size);
    std::uint64_t all = an_epoch * info.epochs;
    return options.limit_batches ? std::min(all, *options.limit_batches * info.batch_size) : all;
}

void take_all(sl_stream* stream, const RunOptions& options, Clock::time_point start, RunResult& result) {
    Progress progress(expected_samples(stream, options));
    Keeper keeper(options, result);
    Clock::time_point first;
    std::uint64_t reconnects = 0;
    while (!result.ended && !result.limited) {
        Batch batch;
        double waited = 0;
        sl_status status = next(stream, batch, waited);
        tell_of_reconnection(stream, reconnects);
        if (status == SL_TIMEOUT) {
            result.interrupted = true;
            break;
        }
        if (status < 0) {
            result.error = last_error_text();
            break;
        }
        if (status == SL_END_OF_EPOCH) ++result.epochs_ended;
        if (status != SL_OK) keeper.end_epoch();
        result.ended = status == SL_END;
        if (status != SL_OK) continue;

        Clock::time_point arrived = Clock::now();
        sl_batch_info info{};
        info.struct_size = sizeof info;
        sl_batch_get_info(batch.get(), &info);
        std::uint64_t valid = keeper.keep(batch.get(), info.count);
        if (result.batches++ == 0) {
            first = arrived;
            result.first_batch = seconds(arrived - start);
        } else {
            result.waits.push_back(waited);
            result.steady = seconds(arrived - first);
            result.steady_samples += valid;
        }
        result.samples += valid;
        result.limited = options.limit_batches && result.batches >= *options.limit_batches;
        progress.show(result.samples);
    }
    keeper.end_epoch();
}

}  // namespace

Outcome<RunResult> stream_epochs(const RunOptions& options) {
    Outcome<nlohmann::json> spec = make_spec(options.source, options.changes);
    if (!spec) return std::unexpected(spec.error());
    std::uint32_t flags = 0;
    if (options.workers) {
        // A daemon that runs already has its own number of workers, so this run gets one for itself.
        std::string arguments = "--workers " + std::to_string(*options.workers);
        if (const char* given = std::getenv("SPEEDYLOADER_DAEMON_ARGS")) {
            arguments = std::string(given) + " " + arguments;
        }
        ::setenv("SPEEDYLOADER_DAEMON_ARGS", arguments.c_str(), 1);
        ::setenv("SPEEDYLOADER_PRIVATE_NAME", ("ctl-" + std::to_string(::getpid())).c_str(), 1);
        flags = SL_CONNECT_PRIVATE;
    }
    Clock::time_point start = Clock::now();
    double own_before = own_cpu();
    Outcome<Client> client = connect(options.socket, flags, reconnect_ms(options));
    if (!client) return std::unexpected(client.error());
    double daemon_before = daemon_cpu(client->get());
    Outcome<Stream> stream = open(client->get(), json_text(*spec));
    if (!stream) return std::unexpected(stream.error());

    catch_interrupt();
    RunResult result;
    take_all(stream->get(), options, start, result);
    result.stats.struct_size = sizeof result.stats;
    sl_stream_stats(stream->get(), &result.stats);
    result.report = nlohmann::json::parse(report_text(stream->get()), nullptr, false);
    // Of a daemon that was lost nobody knows any more; its successor served nobody before.
    if (result.stats.reconnects > 0) daemon_before = 0;
    result.cpu = daemon_cpu(client->get()) - daemon_before + own_cpu() - own_before;
    return result;
}

int run(const RunOptions& options) {
    Outcome<RunResult> result = stream_epochs(options);
    if (!result) {
        std::cerr << "speedyctl: " << result.error().message << "\n";
        return result.error().exit_status;
    }
    if (options.json) {
        std::cout << json_text(summary_json(*result, options)) << std::endl;
    } else {
        print_summary(std::cout, *result);
    }
    if (!result->error.empty()) std::cerr << "speedyctl: the stream stopped: " << result->error << "\n";
    if (result->interrupted) return kExitInterrupted;
    if (result->limited) return kExitGood;
    return result->ended && accounts_for_all(result->report) ? kExitGood : kExitFailed;
}

}  // namespace sl::cli
