// Work that takes the kernel a while, off the conductor's thread: to reserve memory, and to give it back.
//
// A user's works are done one after the other, in the order they were asked for; a few users' at the same
// time, each on a thread of a few that are started as they are needed. So nobody who reserves and gives back
// gigabytes holds up anybody else. Owned by the conductor, on the loop's thread. Where no thread can be
// started the work is done by the caller, who is held up then.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

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
        bool finished = false;
    };
    using Jobs = std::list<Job>;

    explicit Background(EventLoop& loop) : loop_(loop) {}
    void work_on();
    void deliver();
    // With the lock held; do_work lets go of it meanwhile.
    void start_thread();
    [[nodiscard]] Jobs::iterator next();
    [[nodiscard]] std::size_t users_to_start() const;
    void do_work(std::unique_lock<std::mutex>& lock, Jobs::iterator job);

    EventLoop& loop_;
    UniqueFd event_;
    std::vector<std::thread> threads_;  // the loop's thread's

    std::mutex mutex_;  // of all below
    std::condition_variable wanted_;
    Jobs waiting_;
    Jobs running_;  // until the loop has been told: then its user's next one may start
    std::size_t idle_ = 0;
    bool stopping_ = false;
};

}  // namespace sl
