// Scans of datasets, off the conductor's thread; what a spec leaves to its pictures is filled in on the way.
//
// A scan blocks on directories, so each runs on a thread of its own, a few at a time; the others wait in
// order. Its result comes back to the loop's thread. A scan whose asker has gone is not begun, or its result
// dropped. Destroying the queue drops those that wait and waits for those under way. A thread that cannot be
// made and memory that runs out are the scan's error.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>

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

    // Calls `done` on the loop's thread, later or at once, if `asker` still exists then.
    void scan(const Spec& spec, std::weak_ptr<const void> asker, Done done);

  private:
    ScanQueue(EventLoop& loop, std::string worker_program)
        : loop_(loop), worker_program_(std::move(worker_program)) {}
    struct Scan {
        Spec spec;
        std::weak_ptr<const void> asker;
        Done done;
        std::thread thread;
        std::optional<Found> found;          // written by the thread, before `finished`
        std::atomic<bool> finished = false;  // release by the thread, acquire by the loop's
    };
    [[nodiscard]] Found scan_now(Spec spec) const;
    [[nodiscard]] Found guarded(const Spec& spec) const;
    void start_waiting();
    void deliver();

    EventLoop& loop_;
    const std::string worker_program_;
    UniqueFd event_;
    std::list<Scan> waiting_;  // both lists belong to the loop's thread; a scan moves from one to the other
    std::list<Scan> running_;
};

}  // namespace sl
