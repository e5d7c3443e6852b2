// A run's figures and the summary for people; see summary.h.
#include "bindings/cli/summary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <ostream>

#include "bindings/cli/account.h"

namespace sl::cli {

namespace {

constexpr std::size_t kShownFailures = 5;
constexpr std::array<const char*, SL_LANES> kLanes = {"light", "medium", "heavy"};

// Nearest rank: the smallest wait that is not below the given share of all.
double percentile_ms(std::vector<double> values, double share) {
    if (values.empty()) return 0;
    auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
    auto at = values.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(rank, 1) - 1);
    std::nth_element(values.begin(), at, values.end());
    return *at * 1e3;
}

std::string grouped(std::uint64_t number) {
    std::string text = std::to_string(number);
    for (std::size_t at = text.size(); at > 3; at -= 3)
        text.insert(at - 3, ",");
    return text;
}

std::string plural(std::uint64_t number, const char* word, const char* ending = "s") {
    return grouped(number) + " " + word + (number == 1 ? "" : ending);
}

[[gnu::format(printf, 1, 2)]] std::string text(const char* format, ...) {
    std::array<char, 256> buffer;
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(buffer.data(), buffer.size(), format, arguments);
    va_end(arguments);
    return buffer.data();
}

void line(std::ostream& out, const char* name, const std::string& value) {
    out << text("  %-18s", name) << value << "\n";
}

// A member of a failure as text, "" if it is not there.
std::string member(const nlohmann::json& object, const char* key) {
    auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

void print_failures(std::ostream& out, const RunResult& result) {
    if (!result.report.is_object() || !result.report.contains("failures")) return;
    const nlohmann::json& failures = result.report["failures"];
    if (!failures.is_array()) return;
    std::size_t shown = 0;
    for (const nlohmann::json& failure : failures) {
        if (shown++ == kShownFailures) break;
        if (!failure.is_object()) continue;
        out << "    " << member(failure, "path") << ": " << member(failure, "kind") << ": "
            << member(failure, "reason") << "\n";
    }
    std::uint64_t count = result.report.value("failure_count", std::uint64_t{failures.size()});
    if (count > kShownFailures) out << "    ... and " << grouped(count - kShownFailures) << " more\n";
}

std::string verdict(const RunResult& result) {
    if (!result.error.empty()) return "the stream stopped: " + result.error;
    if (result.interrupted) return "interrupted; what was streamed is shown";
    if (result.limited) return "not judged: stopped by --limit-batches";
    if (!result.report.is_object()) return "not known: the daemon has gone, and its account with it";
    if (!accounts_for_all(result.report)) return "NO: samples are missing or were given twice";
    std::string epochs = plural(result.report["epochs"].size(), "epoch");
    if (result.stats.reconnects == 0) return "every sample, in " + epochs;
    return "every sample that the last daemon gave, in " + epochs + "; " +
           plural(result.stats.reconnects, "daemon") + " before it took their accounts along";
}

}  // namespace

Figures figures(const RunResult& result) {
    Figures made;
    bool steady = result.steady > 0;
    made.seconds = steady ? result.steady : result.first_batch;
    auto samples = static_cast<double>(steady ? result.steady_samples : result.samples);
    if (made.seconds > 0) made.samples_per_s = samples / made.seconds;
    if (result.samples > 0) made.cpu_s_per_1k = result.cpu * 1000 / static_cast<double>(result.samples);
    made.wait_p50_ms = percentile_ms(result.waits, 0.5);
    made.wait_p99_ms = percentile_ms(result.waits, 0.99);
    for (double wait : result.waits)
        made.wait_total_s += wait;
    const sl_stats& stats = result.stats;
    if (stats.predicted > 0) {
        made.mape =
            static_cast<double>(stats.absolute_error_ppm) / static_cast<double>(stats.predicted) * 1e-6;
    }
    for (std::size_t lane = 0; lane < SL_LANES; ++lane) {
        if (stats.lane_samples[lane] == 0) continue;
        made.lane_mean_ms[lane] = static_cast<double>(stats.lane_decode_ns[lane]) /
                                  static_cast<double>(stats.lane_samples[lane]) * 1e-6;
    }
    return made;
}

void print_summary(std::ostream& out, const RunResult& result) {
    Figures shown = figures(result);
    out << plural(result.samples, "sample") << " in " << plural(result.batches, "batch", "es") << "\n";
    line(out, "speed",
         text("%.0f samples/s (%.2f s; first batch after %.2f s)", shown.samples_per_s, shown.seconds,
              result.first_batch));
    line(out, "CPU", text("%.2f s per 1,000 samples (daemon, workers, this program)", shown.cpu_s_per_1k));
    line(out, "waiting",
         text("%.2f s in all; median %.2f ms, p99 %.2f ms a batch", shown.wait_total_s, shown.wait_p50_ms,
              shown.wait_p99_ms));
    std::string lanes;
    for (std::size_t lane = 0; lane < SL_LANES; ++lane) {
        if (lane > 0) lanes += ", ";
        lanes += text("%s %s (%.1f ms)", kLanes[lane], grouped(result.stats.lane_samples[lane]).c_str(),
                      shown.lane_mean_ms[lane]);
    }
    line(out, "lanes", lanes);
    line(out, "prediction error",
         result.stats.predicted == 0 ? std::string("nothing was predicted")
                                     : text("%.1f %% (mean absolute); wrong lane for %s", shown.mape * 100,
                                            plural(result.stats.class_errors, "sample").c_str()));
    line(out, "failed", grouped(result.stats.failed) + ", replaced " + grouped(result.stats.substituted));
    print_failures(out, result);
    line(out, "accounted for", verdict(result));
    out.flush();
}

}  // namespace sl::cli
