// Who gets memory next: samples of one stream whose cost is known and that wait for a slot and an input
// buffer.
//
// The plan's order decides within a lane, latest starts between lanes: so reads are started in the order in
// which the scheduler will want the samples. Only a few samples a lane lie in memory ahead of the workers;
// the batch that is due is not counted; more of them while reads are so slow that workers find nothing. A
// lane without a slot waits and the others go on. A sample that finds no room for its bytes makes every later
// one wait, else small files would pass a large one by for ever.
//
// Owned by the conductor thread; pure, like the scheduler. Nothing can fail.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "daemon/schedule/lane_queue.h"

namespace sl {

class Scheduler;

enum class Offer : std::uint8_t {
    kTaken,   // it is gone from the queue
    kMoved,   // it has been moved to another lane of the queue, and may be offered there
    kNoSlot,  // its lane is full
    kNoRoom,  // no room for its bytes
};

class Admission {
  public:
    void add(Lane lane, const Runnable& runnable) { waiting_.add(lane, runnable); }
    void remove(Lane lane, const Runnable& runnable) { waiting_.remove(lane, runnable); }
    // A sample that waits has another cost now, and perhaps another lane.
    void move(Lane from, Lane to, const Runnable& renewed) {
        waiting_.remove(from, renewed);
        waiting_.add(to, renewed);
    }
    // All of them: `renewed(Runnable&) -> Lane` sets the cost and tells the lane.
    template <class Renewed>
    void renew(Renewed&& renewed) {
        LaneQueue all;
        for (Lane lane : {Lane::kLight, Lane::kMedium, Lane::kHeavy}) {
            for (Runnable runnable : waiting_.lane(lane)) {
                const Lane now = renewed(runnable);
                all.add(now, runnable);
            }
        }
        waiting_ = std::move(all);
    }
    [[nodiscard]] const LaneQueue& waiting() const { return waiting_; }

    // Samples that have memory and have not started: reading, or runnable.
    [[nodiscard]] std::uint32_t in_memory(Lane lane) const {
        return in_memory_[static_cast<std::size_t>(lane)];
    }
    void entered(Lane lane) { ++in_memory_[static_cast<std::size_t>(lane)]; }
    void left(Lane lane) { --in_memory_[static_cast<std::size_t>(lane)]; }
    void changed(Lane from, Lane to) {
        left(from);
        entered(to);
    }

    // A worker found nothing to do / something, with `runnable` light samples left: reads go further ahead,
    // at once, or less far again, slowly.
    void starved() {
        if (in_memory(Lane::kLight) > 0) extra_ = std::min(extra_ + 1, kMostExtra);
    }
    void fed(std::size_t runnable, std::uint32_t workers) {
        if (runnable >= workers) extra_ = std::max(extra_ - kCalm, 0.0);
    }

    // `due_step`: as Scheduler::update has it. Offers samples one after another to `take(Lane, const
    // Runnable&) -> Offer` until nothing more can be had. `take` reports what has memory by entered(). It
    // may move() the sample that it is offered; as often as samples wait, and then the rest waits for the
    // next time.
    template <class Take>
    void offer(const Scheduler& scheduler, std::uint64_t stream, std::uint64_t due_step, std::uint32_t cap,
               Take&& take) {
        std::array<bool, kLanes> full{};
        std::size_t moves = waiting_.size();
        while (true) {
            const std::uint32_t most = cap + static_cast<std::uint32_t>(extra_);
            const Head head = first(scheduler, stream, due_step, most, full);
            if (head.runnable == nullptr) return;
            const Runnable runnable = *head.runnable;
            switch (take(head.lane, runnable)) {
                case Offer::kTaken:
                    waiting_.remove(head.lane, runnable);
                    break;
                case Offer::kMoved:
                    if (moves-- == 0) return;
                    break;
                case Offer::kNoSlot:
                    full[static_cast<std::size_t>(head.lane)] = true;
                    break;
                case Offer::kNoRoom:
                    return;
            }
        }
    }

  private:
    struct Head {
        Lane lane = Lane::kLight;
        const Runnable* runnable = nullptr;
    };

    [[nodiscard]] Head first(const Scheduler& scheduler, std::uint64_t stream, std::uint64_t due_step,
                             std::uint32_t cap, const std::array<bool, kLanes>& full) const;

    LaneQueue waiting_;
    static constexpr double kMostExtra = 512;
    static constexpr double kCalm = 1.0 / 64;
    std::array<std::uint32_t, kLanes> in_memory_{};
    double extra_ = 0;  // samples
};

}  // namespace sl
