// sl_bench_event_cost: what an event of the trace costs the thread that records it, its look at the clock
// included, and that look alone. Called by bench/trace.py. CPU time, so that a busy machine does not count.
// Prints one JSON line: {"event_ns", "clock_ns"}, each the least of several rounds.
#include <algorithm>
#include <cstdio>
#include <ctime>

#include "daemon/observe/trace.h"

namespace {

constexpr int kEvents = 500'000;
constexpr int kRounds = 7;

double cpu_ns() {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

template <class Work>
double least_ns(Work&& work) {
    double least = 1e9;
    for (int round = 0; round < kRounds; ++round) {
        const double begin = cpu_ns();
        for (int i = 0; i < kEvents; ++i)
            work(static_cast<std::uint64_t>(i));
        least = std::min(least, (cpu_ns() - begin) / kEvents);
    }
    return least;
}

}  // namespace

int main() {
    sl::Trace trace(2, 1);
    const double event = least_ns([&](std::uint64_t i) {
        sl_shm_trace_event made{};
        made.kind = SL_SHM_TRACE_DECODE;
        made.sample_id = i;
        made.end_ns = sl::Trace::now();
        made.begin_ns = made.end_ns - 1000;
        trace.record_decode(made, 0, made.begin_ns + 1, made.end_ns);
    });
    std::uint64_t sum = 0;
    const double clock = least_ns([&](std::uint64_t) { sum += sl::Trace::now(); });
    std::printf("{\"event_ns\": %.2f, \"clock_ns\": %.2f, \"events\": %llu}\n", event, clock,
                static_cast<unsigned long long>(trace.totals().decodes + (sum == 0 ? 1 : 0)));
    return trace.totals().decodes == std::uint64_t{kEvents} * kRounds ? 0 : 1;
}
