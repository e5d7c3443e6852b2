// Work that takes the kernel a while, off the conductor's thread: to reserve memory, and to give it back.
//
// A user's works are done one after the other, in the order they were asked for, each on a thread of its own;
// a few users' at the same time. So nobody who reserves and gives back gigabytes holds up anybody else. Owned
// by the conductor, on the loop's thread. A thread that cannot be made: the work is done by the caller,
// who is held up then.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <thread>

#include "daemon/pool/event_loop.h"

namespace sl {

class Background {
  public:
    static Result<std::unique_ptr<Background>> create(EventLoop& loop);
    ~Background() { shut_down(); }
    // Drops what waits and waits for what is under way; nobody is called any more.
    void shut_down();
    Background(const Background&) = delete;
    Background& operator=(const Background&) = delete;

    // `work` on another thread; it must not throw. Then `done` on the loop's.
    void run(uid_t uid, std::function<void()> work, std::function<void()> done);

  private:
    struct Job {
        uid_t uid = 0;
        std::function<void()> work;
        std::function<void()> done;
        std::thread thread = {};
        std::atomic<bool> finished = false;  // WORKED: released by the thread, acquired by the loop's
    };

    explicit Background(EventLoop& loop) : loop_(loop) {}
    [[nodiscard]] bool may_start(const Job& job) const;
    void start_waiting();
    void start(Job& job);
    void deliver();

    EventLoop& loop_;
    UniqueFd event_;
    std::list<Job> waiting_;
    std::list<Job> running_;
};

}  // namespace sl
