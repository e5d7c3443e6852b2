// The daemon's way of choosing, in the simulation: its Scheduler, Admission and SampleSlots, driven as the
// conductor drives them. A sample is predicted `horizon` ahead, waits for a slot, is read, is picked, and
// holds its slot until its row lies in a batch of the ring. See simulation.h.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "daemon/schedule/admission.h"
#include "daemon/schedule/scheduler.h"
#include "daemon/stream/sample_slots.h"
#include "tests/schedule/simulation.h"

namespace sl::sim {

struct OurOptions {
    SlotCounts slots;
    std::uint32_t ring = 0;  // batches that rows are assembled in; 0: samples keep their slots till taken
    std::uint32_t least_horizon = 192;
    std::uint32_t horizon = 0;  // 0: what the scheduler asks for, at least least_horizon
    bool ready = false;         // members are whoever is done first
    double read_ns = 0;
    double weight = 1;
    std::vector<double> predicted;  // of each sample
    double light_ns = 4e6;          // most that a light sample is predicted
    double medium_ns = 16e6;
};

class OurLoader : public Loader {
  public:
    OurLoader(std::uint32_t workers, const std::vector<Workload>& workloads, std::vector<OurOptions> options);

    void open(std::uint32_t stream, double now) override;
    void close(std::uint32_t stream, double now) override;
    std::optional<Job> next(std::uint32_t worker, double now) override;
    void ended(std::uint32_t worker, const Job& job, double now) override;
    [[nodiscard]] bool ready(std::uint32_t stream) const override;
    void take(std::uint32_t stream, bool waited, double now) override;
    [[nodiscard]] double wakes_at() const override;

    // Called for each sample that starts.
    std::function<void(const Job&, double now)> on_start;

    [[nodiscard]] const Scheduler& scheduler() const { return scheduler_; }
    [[nodiscard]] std::uint32_t slots_held(std::uint32_t stream) const { return streams_[stream].slots_held; }
    [[nodiscard]] std::uint64_t front(std::uint32_t stream) const { return streams_[stream].front; }

  private:
    enum class State : std::uint8_t { kPlanned, kSized, kReading, kRunnable, kRunning, kDone, kPlaced };
    struct Stream {
        bool open = false;
        std::vector<State> states;
        std::vector<std::uint32_t> slot;
        SampleSlots slots;
        Admission admission;
        std::uint32_t cursor = 0;   // first sample that is not predicted
        std::uint32_t waiting = 0;  // predicted, not in memory
        std::uint32_t slots_held = 0;
        std::vector<std::uint32_t> left;  // of each batch, rows that are not placed
        std::uint64_t front = 0;          // first batch with a row that is not placed
        std::uint64_t taken = 0;
        std::uint64_t placed = 0;              // rows (ready)
        std::set<std::uint32_t> done;          // waiting for a row
        std::deque<std::uint32_t> keep_slots;  // without a ring: placed and not taken (ready)
        double mean_ns = 0;
    };

    void turn(double now);
    void admit(std::uint32_t stream);
    [[nodiscard]] std::uint64_t due_step(std::uint32_t stream) const;
    void start_reads(std::uint32_t stream, double now);
    void runnable(std::uint32_t stream, std::uint32_t sample);
    void place(std::uint32_t stream);
    [[nodiscard]] Lane lane(std::uint32_t stream, std::uint32_t sample) const;
    [[nodiscard]] Runnable entry(std::uint32_t stream, std::uint32_t sample) const;

    std::uint32_t workers_;
    const std::vector<Workload>& workloads_;
    std::vector<OurOptions> options_;
    Scheduler scheduler_;
    std::vector<Stream> streams_;
    std::vector<std::uint32_t> base_;  // first task number of each stream
    std::multimap<double, Job> reads_;
};

}  // namespace sl::sim
