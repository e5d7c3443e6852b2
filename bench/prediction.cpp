// What one prediction and one observation take: a pipeline with a random crop, 100,000 samples, two epochs.
//
// Run by bench/prediction.py. Prints {"predict_ns": ..., "observe_ns": ...}: medians of nine passes, the
// first of which is the first epoch.
#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

#include "daemon/predict/predictor.h"

namespace {

constexpr std::uint64_t kSamples = 100'000;

double cpu_ns() {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

// Nanoseconds of CPU time per sample.
template <class Action>
double time_of(Action action) {
    const double start = cpu_ns();
    for (std::uint64_t id = 0; id < kSamples; ++id)
        action(id);
    return (cpu_ns() - start) / kSamples;
}

}  // namespace

int main() {
    sl::Pipeline pipeline;
    pipeline.op_count = 2;
    pipeline.ops[1].kind = sl::OpKind::kRandomResizedCrop;
    pipeline.ops[1].slot = 1;
    pipeline.ops[1].height = pipeline.ops[1].width = pipeline.height = pipeline.width = 224;
    sl::Predictor predictor(pipeline, kSamples);
    std::array<double, 9> predict{};
    std::array<double, 9> observe{};
    for (std::uint64_t pass = 0; pass < predict.size(); ++pass) {
        const auto bytes_of = [](std::uint64_t id) { return 40'000 + id * 7919 % 50'000; };
        predict[pass] = time_of([&](std::uint64_t id) { predictor.predict({1, pass, id}, bytes_of(id), 1); });
        observe[pass] = time_of([&](std::uint64_t id) {
            const double cost = 2e5 + 10 * static_cast<double>(bytes_of(id));
            predictor.observe({1, pass, id}, bytes_of(id), {1, 500, 375, false, cost});
        });
    }
    std::ranges::nth_element(predict, predict.begin() + 4);
    std::ranges::nth_element(observe, observe.begin() + 4);
    std::printf("{\"predict_ns\": %.0f, \"observe_ns\": %.0f}\n", predict[4], observe[4]);
    return 0;
}
