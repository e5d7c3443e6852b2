// Scans of datasets, off the conductor's thread.
//
// A scan blocks on directories, so each runs on a thread of its own; its result comes back to the loop's
// thread. Destroying the queue waits for scans that are under way. Results whose asker has gone are dropped
// by the callback's own check.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "daemon/pool/event_loop.h"
#include "daemon/stream/dataset.h"

namespace sl {

class ScanQueue {
  public:
    using Found = Result<std::shared_ptr<const Dataset>>;
    using Done = std::function<void(Found)>;

    static Result<std::unique_ptr<ScanQueue>> create(EventLoop& loop);
    ~ScanQueue();

    // Calls `done` on the loop's thread.
    void scan(const Spec& spec, Done done);

  private:
    explicit ScanQueue(EventLoop& loop) : loop_(loop) {}
    void deliver();

    struct Answer {
        std::uint64_t id;
        Found found;
    };

    EventLoop& loop_;
    UniqueFd event_;
    std::uint64_t next_id_ = 0;
    std::map<std::uint64_t, std::pair<std::thread, Done>> running_;  // loop's thread only
    std::mutex mutex_;                                               // guards answers_
    std::vector<Answer> answers_;
};

}  // namespace sl
