// Scans of datasets, off the conductor's thread; what a spec leaves to its pictures is filled in on the way.
//
// A scan blocks on directories, so each runs on a thread of its own; its result comes back to the loop's
// thread. Destroying the queue waits for scans that are under way. Results whose asker has gone are dropped
// by the callback's own check.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon/pool/event_loop.h"
#include "daemon/stream/dataset.h"

namespace sl {

class ScanQueue {
  public:
    struct Scanned {
        std::shared_ptr<const Dataset> dataset;
        Spec spec;  // with the output's size, where the spec left it to the first picture
    };
    using Found = Result<Scanned>;
    using Done = std::function<void(Found)>;

    static Result<std::unique_ptr<ScanQueue>> create(EventLoop& loop, std::string worker_program);
    ~ScanQueue();

    // Calls `done` on the loop's thread.
    void scan(const Spec& spec, Done done);

  private:
    ScanQueue(EventLoop& loop, std::string worker_program)
        : loop_(loop), worker_program_(std::move(worker_program)) {}
    [[nodiscard]] Found scan_now(Spec spec) const;
    void deliver();

    struct Answer {
        std::uint64_t id;
        Found found;
    };

    EventLoop& loop_;
    const std::string worker_program_;
    UniqueFd event_;
    std::uint64_t next_id_ = 0;
    std::map<std::uint64_t, std::pair<std::thread, Done>> running_;  // loop's thread only
    std::mutex mutex_;                                               // guards answers_
    std::vector<Answer> answers_;
};

}  // namespace sl
