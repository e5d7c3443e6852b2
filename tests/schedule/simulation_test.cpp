// Strict order with predicted starts against first in, first out, as a discrete-event simulation.
//
// W workers, batches of B, a consumer that takes a batch at a steady pace that leaves the workers 15 % of
// spare time. A sample holds a slot of memory from its start until its batch is taken. One sample in a
// hundred costs a hundred times the others. Both policies have the same workers and as many slots: first in,
// first out gives them out in plan order; predicted starts has them as lanes and a reserve (SampleSlots), and
// knows the costs up to a factor that is wrong by up to 30 %. Simulated time only: the results are the same
// everywhere.
#include <algorithm>
#include <functional>
#include <optional>
#include <queue>
#include <random>
#include <vector>

#include "daemon/schedule/scheduler.h"
#include "daemon/stream/sample_slots.h"
#include "tests/cmocka_cpp.h"

namespace sl {
namespace {

constexpr std::uint32_t kWorkers = 8;
constexpr std::uint32_t kBatch = 64;
constexpr std::uint32_t kBatches = 400;
constexpr std::uint32_t kSamples = kBatches * kBatch;
constexpr std::uint32_t kAhead = 24;  // batches whose samples' costs are predicted
constexpr SlotCounts kCounts{{2 * kBatch, kBatch, kBatch}, kBatch};
constexpr double kLightNs = 1e6;
constexpr double kHeavyNs = 100e6;
constexpr double kPaceNs = 1.15 * kBatch * (0.99 * kLightNs + 0.01 * kHeavyNs) / kWorkers;

struct Work {
    std::vector<double> cost;
    std::vector<double> predicted;
};

Work make_work(std::uint32_t seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> error(0.7, 1.3);
    Work work;
    for (std::uint32_t i = 0; i < kSamples; ++i) {
        work.cost.push_back(random() % 100 == 0 ? kHeavyNs : kLightNs);
        work.predicted.push_back(work.cost.back() * error(random));
    }
    return work;
}

// Who is next. The simulation tells where the consumer is and which samples have ended or been taken.
class Policy {
  public:
    virtual ~Policy() = default;
    virtual void advance(std::uint32_t front) = 0;  // the first batch that has not been taken
    virtual std::optional<std::uint32_t> next() = 0;
    virtual void finished(std::uint32_t sample) = 0;
};

class FirstInFirstOut : public Policy {
  public:
    void advance(std::uint32_t front) override {
        end_ = std::min(front * kBatch + kCounts.total(), kSamples);
    }
    std::optional<std::uint32_t> next() override {
        if (next_ == end_) return std::nullopt;
        return next_++;
    }
    void finished(std::uint32_t) override {}

  private:
    std::uint32_t next_ = 0;
    std::uint32_t end_ = 0;
};

class Predicted : public Policy {
  public:
    explicit Predicted(const Work& work)
        : work_(work), slots_(std::move(*Segment::create("test", 1)), 0, kCounts), slot_(kSamples) {
        scheduler_.add_stream(1, kBatch);
    }
    void advance(std::uint32_t front) override {
        for (; released_ < front * kBatch; ++released_)
            slots_.release(*slot_[released_]);
        scheduler_.update(1, front, 0.99 * kLightNs + 0.01 * kHeavyNs);
        // Whatever finds a slot may start: the batch that is due from the reserve too.
        const std::uint32_t end = std::min(front * kBatch + kAhead * kBatch, kSamples);
        for (std::uint32_t sample = released_; sample < end; ++sample) {
            if (slot_[sample]) continue;
            slot_[sample] = slots_.acquire(lane(sample), sample / kBatch == front);
            if (!slot_[sample]) continue;
            scheduler_.add(1, lane(sample),
                           {sample / kBatch, sample % kBatch, sample, work_.predicted[sample]});
        }
    }
    std::optional<std::uint32_t> next() override {
        auto pick = scheduler_.pick();
        if (!pick) return std::nullopt;
        return pick->runnable.task;
    }
    void finished(std::uint32_t sample) override { scheduler_.finished(lane(sample)); }

  private:
    [[nodiscard]] Lane lane(std::uint32_t sample) const {
        const double predicted = work_.predicted[sample];
        return predicted > 16 * kLightNs  ? Lane::kHeavy
               : predicted > 4 * kLightNs ? Lane::kMedium
                                          : Lane::kLight;
    }
    const Work& work_;
    SampleSlots slots_;
    std::vector<std::optional<std::uint32_t>> slot_;
    std::uint32_t released_ = 0;
    Scheduler scheduler_{kWorkers};
};

struct Outcome {
    double waited = 0;        // by the consumer, in all
    std::uint64_t given = 0;  // samples started
};

class Simulation {
  public:
    Simulation(const Work& work, Policy& policy) : work_(work), policy_(policy), left_(kBatches, kBatch) {
        policy_.advance(0);
    }

    Outcome run() {
        start_workers();
        while (!events_.empty()) {
            const auto [time, sample] = events_.top();
            events_.pop();
            now_ = time;
            if (sample == kConsumer) {
                ready_since_ = now_;
            } else {
                --busy_;
                policy_.finished(sample);
                --left_[sample / kBatch];
            }
            consume();
            start_workers();
        }
        return outcome_;
    }

    [[nodiscard]] bool all_taken() const { return front_ == kBatches; }

  private:
    static constexpr std::uint32_t kConsumer = kSamples;

    void start_workers() {
        while (busy_ < kWorkers) {
            const auto sample = policy_.next();
            if (!sample) return;
            ++outcome_.given;
            ++busy_;
            events_.emplace(now_ + work_.cost[*sample], *sample);
        }
    }
    // Takes the front batch if it is whole and the consumer is ready for it.
    void consume() {
        if (!ready_since_ || front_ == kBatches || left_[front_] != 0) return;
        if (front_ > 0)
            outcome_.waited += now_ - *ready_since_;  // the first batch is waited for by everybody
        ready_since_.reset();
        events_.emplace(now_ + kPaceNs, kConsumer);
        policy_.advance(++front_);
    }

    using Event = std::pair<double, std::uint32_t>;
    const Work& work_;
    Policy& policy_;
    std::vector<std::uint32_t> left_;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
    std::optional<double> ready_since_ = 0.0;
    std::uint32_t busy_ = 0;
    std::uint32_t front_ = 0;
    double now_ = 0;
    Outcome outcome_;
};

Outcome simulate(const Work& work, Policy&& policy) {
    Simulation simulation(work, policy);
    const Outcome outcome = simulation.run();
    assert_true(simulation.all_taken());
    assert_int_equal(outcome.given, kSamples);
    return outcome;
}

void predicted_starts_make_the_consumer_wait_far_less(void**) {
    for (std::uint32_t seed = 1; seed <= 5; ++seed) {
        const Work work = make_work(seed);
        const Outcome fifo = simulate(work, FirstInFirstOut());
        const Outcome predicted = simulate(work, Predicted(work));
        print_message("seed %u: the consumer waited %.0f ms against %.0f\n", seed, predicted.waited * 1e-6,
                      fifo.waited * 1e-6);
        assert_true(predicted.waited < 0.5 * fifo.waited);
    }
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(predicted_starts_make_the_consumer_wait_far_less),
    };
    return cmocka_run_group_tests_name("schedule/simulation", tests, nullptr, nullptr);
}
