// speedyloader-worker: bytes in, pixels out, one sample after the other.
//
// Started by the daemon with its socket as descriptor 3. It has one thread, keeps no state between samples
// but caches, and may be killed at any instruction: whatever it had not reported is done again elsewhere.
// Before it looks at a foreign byte it closes its sandbox (sandbox.h), unless it is started with
// --no-sandbox.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/worker/attachment.h"
#include "daemon/worker/decode/generic.h"
#include "daemon/worker/decode/glance.h"
#include "daemon/worker/sandbox.h"
#include "daemon/worker/transform/execute.h"
#include "shm/fault.h"
#ifdef SL_TEST_HOOKS
#include "daemon/worker/test_escapes.h"
#include "daemon/worker/test_hooks.h"
#endif

namespace sl {
namespace {

constexpr int kSocket = 3;

std::uint64_t clock_ns(clockid_t clock) {
    timespec time{};
    ::clock_gettime(clock, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

void set_error(sl_shm_completion& completion, const SampleError& error) {
    completion.error_kind = static_cast<std::uint32_t>(error.kind);
    completion.error_offset = error.offset;
    copy_text(completion.message, error.message);
}

void set_result(sl_shm_completion& completion, const Executed& executed) {
    completion.format = static_cast<std::uint32_t>(executed.format);
    completion.width = executed.width;
    completion.height = executed.height;
    completion.progressive = executed.progressive ? 1 : 0;
    completion.warnings = executed.warnings;
    const Geometry& geometry = executed.geometry;
    completion.box[0] = geometry.box.x;
    completion.box[1] = geometry.box.y;
    completion.box[2] = geometry.box.width;
    completion.box[3] = geometry.box.height;
    completion.flip = geometry.flip ? 1 : 0;
}

sl_shm_completion work(const Attachment& attachment, const sl_shm_job& job, Executor& executor) {
    sl_shm_completion completion{};
    completion.tag = job.tag;
    completion.begin_ns = clock_ns(CLOCK_MONOTONIC);
    completion.error_offset = kNoOffset;
    const auto* stream = attachment.stream(job.stream_id);
    auto input = attachment.input(job.input.offset, job.input.bytes);
    auto output = stream != nullptr ? Attachment::output(*stream, job.output_offset) : std::span<std::byte>();
    if (input.empty() || output.empty()) {
        set_error(completion,
                  {SampleErrorKind::kIo, "the daemon gave a job outside its segments", kNoOffset, 0});
        return completion;
    }
#ifdef SL_TEST_HOOKS
    run_test_hooks(input);
    if (auto told = try_to_escape({input, stream->samples.bytes(), attachment.socket()})) {
        set_error(completion, {SampleErrorKind::kCorrupt, *told, kNoOffset, 0});
        return completion;
    }
#endif
    std::uint64_t started = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    auto executed = executor.execute(stream->pipeline, {job.seed, job.epoch, job.sample_id}, input,
                                     reinterpret_cast<std::uint8_t*>(output.data()));
    completion.cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - started;
    if (executed) {
        set_result(completion, *executed);
    } else {
        set_error(completion, executed.error());
    }
    completion.end_ns = clock_ns(CLOCK_MONOTONIC);
    SL_FAULT(worker_decoded);
    return completion;
}

// What the header tells at a glance. Whatever is wrong with it is for the decode to say.
sl_shm_completion look(const Attachment& attachment, const sl_shm_job& job) {
    sl_shm_completion completion{};
    completion.tag = job.tag;
    const auto input = attachment.input(job.input.offset, job.input.bytes);
#ifdef SL_TEST_HOOKS
    run_header_hooks(input);
#endif
    if (const auto info = glance(input)) {
        completion.format = static_cast<std::uint32_t>(info->format);
        completion.width = info->width;
        completion.height = info->height;
        completion.progressive = info->progressive ? 1 : 0;
    }
    SL_FAULT(worker_header_seen);
    return completion;
}

int complain(const Error& error) {
    std::fprintf(stderr, "speedyloader-worker: %s\n", error.message.c_str());
    return 1;
}

// For `speedyloaderd --version`: the daemon links no codec, so it asks.
int list_codecs() {
    if (auto started = start_codecs(); !started) return complain(started.error());
    std::printf("%s\n", describe_codecs().c_str());
    return 0;
}

// For pipelines that set no size: the size of the picture on standard input, or what is wrong with it.
int print_size(bool sandbox) {
    if (auto started = start_codecs(); !started) return complain(started.error());
    std::vector<std::byte> file;
    std::byte buffer[65536];
    for (ssize_t got = 0; (got = ::read(STDIN_FILENO, buffer, sizeof buffer)) > 0;) {
        file.insert(file.end(), buffer, buffer + got);
    }
    if (sandbox) {
        if (auto closed = close_sandbox(Pipeline{}.max_pixels, false); !closed) {
            std::printf("%s", closed.error().message.c_str());
            return complain(closed.error());
        }
    }
    Decoder decoder;
    auto info = decoder.probe(file, Pipeline{}.max_pixels);
    if (info) {
        std::printf("%u x %u", info->width, info->height);
    } else {
        std::printf("%s: %s", std::string(to_string(info.error().kind)).c_str(),
                    info.error().message.c_str());
    }
    return info ? 0 : 1;
}

// Tells the daemon why there will be no worker.
int give_up(const UniqueFd& socket, const Error& error) {
    auto message = make_message<sl_msg_error>(SL_MSG_ERROR, 1);
    message.status = static_cast<std::int32_t>(error.status);
    message.os_errno = error.os_errno;
    copy_text(message.message, error.message);
    static_cast<void>(send_struct(socket.get(), message));
    return complain(error);
}

int run(bool sandbox) {
    // A daemon that dies takes its workers along; if it was gone before this line, so are we.
    pid_t daemon = ::getppid();
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != daemon) return 1;
    SL_FAULT(worker_started);
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    UniqueFd socket(kSocket);
    if (auto started = start_codecs(); !started) return give_up(socket, started.error());
    if (sandbox) {
        if (auto closed = close_sandbox(Pipeline{}.max_pixels, true); !closed)
            return give_up(socket, closed.error());
    }
    auto attachment = Attachment::attach(std::move(socket));
    if (!attachment) return complain(attachment.error());
    SL_FAULT(worker_equipped);
    Executor executor;
    while (true) {
        auto job = attachment->next_job();
        if (!job) return job.error().status == Status::kDisconnected ? 0 : 1;
        SL_FAULT(worker_job_taken);
        if (job->output_offset == SL_SHM_NO_OUTPUT) {
            attachment->complete_header(look(*attachment, *job));
        } else {
            attachment->complete(work(*attachment, *job, executor));
        }
    }
}

}  // namespace
}  // namespace sl

int main(int argc, char** argv) {
    const auto has = [&](std::string_view option) {
        return std::find(argv + 1, argv + argc, option) != argv + argc;
    };
    if (has("--codecs")) return sl::list_codecs();
    const bool sandbox = !has("--no-sandbox");
    const int status = has("--size") ? sl::print_size(sandbox) : sl::run(sandbox);
    // Not exit(): what libraries do at the end is not for a closed sandbox.
    std::fflush(nullptr);
    ::_exit(status);
}
