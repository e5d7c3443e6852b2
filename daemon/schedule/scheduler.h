// The scheduler: which runnable sample a free worker takes.
//
// A deterministic state machine, owned by the conductor thread; costs and completions are its inputs and it
// reads no clock, so the same code can be driven by a simulation.
//
// Within a stream: batch b is due when the work before it is done, due(b) = (b - front) x batch x mean cost /
// workers; a sample's latest start is due(b) - predicted cost x safety; of the heads of the three lanes the
// one with the earliest latest start goes first. So heavy samples of later batches start early and light ones
// just in time. Two rules on top: heavy samples never hold all workers while a light one is due, and no
// worker idles while anything is runnable (the first rule gives way when only heavy samples are left).
//
// Between streams: the one that has been served least (predicted work so far) goes first. A stream that was
// idle comes back at the level that the others have reached. Source: Goyal, Vin, Cheng, "Start-time fair
// queuing".
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "daemon/schedule/lane_queue.h"

namespace sl {

struct Pick {
    std::uint64_t stream = 0;
    Lane lane = Lane::kLight;
    Runnable runnable;
};

class Scheduler {
  public:
    explicit Scheduler(std::uint32_t workers) : workers_(workers) {}

    void add_stream(std::uint64_t stream, std::uint32_t batch_size);
    void remove_stream(std::uint64_t stream);

    // The stream's first unfinished step and its mean cost a sample: what due times are computed from.
    void update(std::uint64_t stream, std::uint64_t front_step, double mean_ns);

    void add(std::uint64_t stream, Lane lane, const Runnable& runnable);
    void remove(std::uint64_t stream, Lane lane, const Runnable& runnable);

    // The next sample to start, taken out of its lane; nothing if nothing is runnable. The caller tells when
    // a picked sample has left its worker.
    std::optional<Pick> pick();
    void finished(Lane lane);

    [[nodiscard]] std::size_t runnable(std::uint64_t stream, Lane lane) const;

  private:
    struct Stream {
        LaneQueue queue;
        std::uint32_t batch_size = 1;
        std::uint64_t front_step = 0;
        double mean_ns = 1e6;
        double served_ns = 0;
    };

    using Entry = std::map<std::uint64_t, Stream>::value_type;

    [[nodiscard]] double latest_start(const Stream& stream, const Runnable& runnable) const;
    [[nodiscard]] std::optional<Lane> best_lane(const Stream& stream) const;
    [[nodiscard]] bool last_worker() const;  // one more slow sample would hold them all
    [[nodiscard]] bool light_is_due(const Stream& stream) const;
    [[nodiscard]] Entry* least_served(bool with_due_light);

    std::uint32_t workers_;
    std::uint32_t running_not_light_ = 0;
    double level_ns_ =
        0;  // what the stream that went first had been served: the virtual time of fair queuing
    std::map<std::uint64_t, Stream> streams_;
};

}  // namespace sl
