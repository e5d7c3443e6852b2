// The conductor's event loop: epoll over descriptors, plus timers.
//
// One per daemon; everything is called on the thread that runs it. A handler may add and remove descriptors
// and timers, its own included. The loop never blocks longer than until the next timer.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>

#include "shm/error.h"
#include "shm/fd.h"

namespace sl {

class EventLoop {
  public:
    using Clock = std::chrono::steady_clock;
    using Handler = std::function<void(std::uint32_t events)>;
    using TimerId = std::uint64_t;

    static Result<std::unique_ptr<EventLoop>> create();

    // kLevel: called while `fd` is readable. kEdge: called once for each write to it, so that an eventfd
    // which another process holds as well need never be read (a read could be made to block by that
    // process, since O_NONBLOCK belongs to the shared open file description).
    enum class Trigger { kLevel, kEdge };

    // Calls `handler` with EPOLLIN, EPOLLHUP, ...
    Result<void> add(int fd, Handler handler, Trigger trigger = Trigger::kLevel);
    void remove(int fd);

    TimerId after(std::chrono::nanoseconds delay, std::function<void()> action);
    void cancel(TimerId timer);

    // `before_sleep` runs before each wait and returns whether there is something left to do at once (then
    // the wait only polls). `after_sleep` runs after each wait, before the handlers.
    void on_idle(std::function<bool()> before_sleep, std::function<void()> after_sleep);

    void run();
    void stop() { stopped_ = true; }

  private:
    explicit EventLoop(UniqueFd epoll) : epoll_(std::move(epoll)) {}

    void wait_once();
    void run_timers();
    [[nodiscard]] int timeout_ms() const;

    UniqueFd epoll_;
    bool stopped_ = false;
    TimerId next_timer_ = 1;
    std::uint64_t next_token_ = 1;
    std::multimap<Clock::time_point, std::pair<TimerId, std::function<void()>>> timers_;
    // Events carry a token, not the descriptor: a number that was closed and reused must not get an old
    // event.
    std::unordered_map<std::uint64_t, std::shared_ptr<Handler>> handlers_;
    std::unordered_map<int, std::uint64_t> tokens_;
    std::function<bool()> before_sleep_ = [] { return false; };
    std::function<void()> after_sleep_ = [] {};
};

}  // namespace sl
