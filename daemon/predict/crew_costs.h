// The cost models of items: one for each crew, found again by the stream of its next epoch.
//
// On the conductor thread. A model lives as long as a stream of its crew does and for a while after, since
// between two epochs there may be no stream; nothing is written to disk, for a crew's number means nothing to
// another run. At most kMostIdle crews without a stream are remembered; those left longest ago go first.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>

#include "daemon/pool/event_loop.h"
#include "daemon/predict/cost_model.h"

namespace sl {

class CrewCosts {
  public:
    static constexpr std::size_t kMostIdle = 32;

    explicit CrewCosts(EventLoop& loop, std::chrono::milliseconds keep = std::chrono::minutes(10))
        : loop_(loop), keep_(keep) {}
    ~CrewCosts();
    CrewCosts(const CrewCosts&) = delete;
    CrewCosts& operator=(const CrewCosts&) = delete;

    // The crew's model, for items below `items_end` too. `mean_hint` of the order matters to a new one only.
    std::shared_ptr<CostModel> open(std::uint64_t crew, std::uint64_t items_end, double mean_hint);
    // A stream over the model has ended: the caller is about to let go of it.
    void ended(const CostModel& model);

    [[nodiscard]] std::size_t known() const { return crews_.size(); }

  private:
    struct Crew {
        std::uint64_t number = 0;
        std::shared_ptr<CostModel> model;
        std::uint32_t streams = 0;
        EventLoop::TimerId forget = 0;  // runs while there is no stream
    };
    void forget(std::uint64_t number);

    EventLoop& loop_;
    std::chrono::milliseconds keep_;
    std::list<Crew> crews_;  // those without a stream by when their last one ended
};

}  // namespace sl
