// The scheduler: which runnable sample a free worker takes.
//
// A deterministic state machine, owned by the conductor thread. Time, costs, completions and what the
// consumer has taken are its inputs; it reads no clock, so the same code is driven by the simulator
// (bench/schedule_sim). docs/scheduling.md tells why it is so and what it is worth.
//
// Within a stream. The order of samples is known, so it is known when each is wanted. Batch b is due at
//
//     due(b) = max(front + work before b / workers, next take + (b - taken) x step time)
//
// counted from now: `front` is when the first unfinished batch can be whole (a running sample of it may take
// longer), the work before b is (b - front) x batch x mean cost, and the step time is measured from the
// consumer's takings. A sample's *latest start* is due(b) - predicted cost x safety, and the runnable sample
// with the earliest latest start goes first: heavy samples of later batches early, light ones just in time,
// and the longest first when the run ends. The safety follows from the error of the predictions as it is
// measured: as if it were lognormal, nineteen slow samples in twenty end in time.
//
// Rules on top. A slow sample that has time starts only if light ones still come as fast as consumers with a
// pace want them while it holds its worker (supply.h); else the worker takes a light one, and where none can
// run it waits for one: a heavy sample that is begun because there is nothing else to do is what makes the
// consumer wait a little later. No slow sample takes the last worker while a light one is due before one of
// the slow ones ends. A light one that has run for several times its prediction counts as slow. What runs is
// never stopped or done again. Where batches are filled by whoever is done (`ready`), a sample whose planned
// batch has gone by goes before everything else.
//
// Between streams: who has been served least goes first, in predicted work by weight, made good by the actual
// cost at the end. A stream that was idle comes back at the level that the others have reached. A stream that
// needs to start nothing yet to be in time lends: the others go first, and it saves up no claim meanwhile.
// Source: Goyal, Vin, Cheng, "Start-time fair queuing".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "daemon/schedule/lane_queue.h"
#include "daemon/schedule/safety.h"
#include "daemon/schedule/step_time.h"
#include "daemon/schedule/stretch.h"
#include "daemon/schedule/supply.h"

namespace sl {

struct Pick {
    std::uint64_t stream = 0;
    Lane lane = Lane::kLight;
    Runnable runnable;
};

class Scheduler {
  public:
    // Costs are processor time. Until it is known how much longer samples take, with more workers than cores
    // they are taken to share those evenly.
    explicit Scheduler(std::uint32_t workers, std::uint32_t cores = UINT32_MAX) : cores_(cores) {
        set_workers(workers);
    }
    // They have become more or fewer.
    void set_workers(std::uint32_t workers) {
        workers_ = workers;
        stretch_ = Stretch(workers > cores_ ? static_cast<double>(workers) / cores_ : 1);
    }

    // What time it is: on any steady clock, never less than before.
    void advance(std::uint64_t now_ns) { now_ns_ = now_ns; }

    struct Share {
        std::uint32_t batch_size = 1;
        double weight = 1;  // its share of the workers against the other streams'
    };
    void add_stream(std::uint64_t stream, const Share& share);
    void remove_stream(std::uint64_t stream);

    // The stream's first step that is due: not finished, or, where batches hold any samples, not whole. And
    // its mean cost a sample.
    void update(std::uint64_t stream, std::uint64_t front_step, double mean_ns);
    // The consumer has taken all batches before `step`; `waited`: it had to wait for the last of them.
    void taken(std::uint64_t stream, std::uint64_t step, bool waited);

    // The first light sample that waits for memory; nullptr if none does.
    void next_light(std::uint64_t stream, const Runnable* waiting);

    void add(std::uint64_t stream, Lane lane, const Runnable& runnable);
    void remove(std::uint64_t stream, Lane lane, const Runnable& runnable);
    // A runnable sample has another cost now, and perhaps another lane.
    void move(std::uint64_t stream, Lane from, Lane to, const Runnable& renewed);

    // The next sample to start, taken out of its lane; nothing if nothing is runnable, or what is had better
    // wait (`holds`; then some sample is running). The caller tells when a picked sample has left its worker,
    // and what it cost if it was done.
    std::optional<Pick> pick();
    // Whether the last pick found only samples that had better wait.
    [[nodiscard]] bool holds() const { return holds_; }
    void finished(std::uint32_t task, double actual_ns);
    void lost(std::uint32_t task);
    // How long a sample of so much processor time took.
    void took(double cost_ns, double elapsed_ns) { stretch_.observe(cost_ns, elapsed_ns); }

    // A sample's cost has become known, long before it can run.
    void foresee(std::uint64_t stream, Lane lane, double predicted_ns);
    // Samples ahead whose cost is worth knowing: what the workers do in so many times the cost of the sample
    // that a piece of work belongs to on average. Spare time goes into heavy samples, which hold the most
    // work a slot, and of those that come close together the last ones need it early.
    [[nodiscard]] std::uint32_t horizon(std::uint64_t stream) const;
    // Nanoseconds from now, negative if it is too late. 0 for an unknown stream.
    [[nodiscard]] double latest_start(std::uint64_t stream, Lane lane, const Runnable& runnable) const;

    [[nodiscard]] std::size_t runnable(std::uint64_t stream, Lane lane) const;
    // The consumer's time a batch, 0 while it is not known.
    [[nodiscard]] double step_ns(std::uint64_t stream) const;
    [[nodiscard]] double safety(std::uint64_t stream) const;

  private:
    struct Stream {
        LaneQueue queue;
        Share share;
        std::uint64_t front_step = 0;
        double front_ns = 0;  // from now until the front can be whole
        double mean_ns = 1e6;
        std::optional<Runnable> next_light;  // that waits for memory
        double foreseen_ns = 0;              // predictions, summed and forgotten in time
        double foreseen_light = 0;           // those of light samples
        double foreseen_square = 0;          // the squares of all
        double served_ns = 0;                // predicted work, by weight
        bool lends = false;
        Safety safety;
        StepTime consumer;
    };
    struct Running {
        std::uint64_t stream = 0;
        Lane lane = Lane::kLight;
        Runnable runnable;
        std::uint64_t since_ns = 0;
    };
    struct Choice {
        Lane lane = Lane::kLight;
        const Runnable* runnable = nullptr;
        double latest_start = 0;
    };
    using Entry = std::map<std::uint64_t, Stream>::value_type;

    // What is the same for all samples of a stream at one moment: from now until the front batch is due, and
    // the time from batch to batch, by the work and by the consumer.
    struct Pace {
        double work_front = 0;
        double work_step = 0;
        double consumer_front = 0;
        double consumer_step = 0;
        double safety = 1;
    };
    [[nodiscard]] Pace pace(const Stream& stream, Lane lane) const;
    // Of its batch, counted from the front; negative if that has gone by.
    [[nodiscard]] static double batches_ahead(const Stream& stream, const Runnable& runnable);
    [[nodiscard]] static double latest_start(const Stream& stream, const Pace& pace,
                                             const Runnable& runnable);
    [[nodiscard]] double remaining(const Running& running) const;
    [[nodiscard]] bool slow(const Running& running) const;
    [[nodiscard]] Choice best_of(const Stream& stream, Lane lane) const;
    [[nodiscard]] Choice late(const Stream& stream) const;
    [[nodiscard]] Choice best(const Stream& stream) const;
    [[nodiscard]] bool last_worker() const;  // one more slow sample would hold them all
    [[nodiscard]] static const Runnable* first_light(const Stream& stream);
    [[nodiscard]] bool wants_light(const Stream& stream) const;
    [[nodiscard]] std::vector<LightDemand> light_demands() const;
    [[nodiscard]] bool suffices_beside(const Choice& slow) const;
    [[nodiscard]] double first_free(const Choice& last) const;
    [[nodiscard]] Entry* due_light(Entry& before, double within_ns);
    void settle_lending();
    [[nodiscard]] std::vector<Entry*> by_service();
    Pick start(Entry& entry, const Choice& choice);
    std::optional<Pick> pick_of(Entry& entry);
    void leave(std::uint32_t task, double actual_ns);

    std::uint32_t cores_;
    std::uint32_t workers_ = 1;
    Stretch stretch_{1};
    std::uint64_t now_ns_ = 0;
    std::vector<Running> running_;
    bool holds_ = false;
    double level_ns_ =
        0;  // what the stream that went first had been served: the virtual time of fair queuing
    std::map<std::uint64_t, Stream> streams_;
};

}  // namespace sl
