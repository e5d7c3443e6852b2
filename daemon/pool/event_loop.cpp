#include "daemon/pool/event_loop.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace sl {

namespace {
constexpr int kLongestWaitMs = 1000;
constexpr std::chrono::milliseconds kHandlersTake{20};
}  // namespace

Result<std::unique_ptr<EventLoop>> EventLoop::create() {
    UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
    if (!epoll) return std::unexpected(os_error(Status::kInternal, "epoll_create1", errno));
    return std::unique_ptr<EventLoop>(new EventLoop(std::move(epoll)));
}

Result<void> EventLoop::add(int fd, Handler handler, Trigger trigger) {
    std::uint64_t token = next_token_++;
    epoll_event event{};
    event.events = EPOLLIN;
    if (trigger == Trigger::kEdge) event.events |= EPOLLET;
    event.data.u64 = token;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
        return std::unexpected(os_error(Status::kInternal, "epoll_ctl", errno));
    }
    handlers_[token] = std::make_shared<Handler>(std::move(handler));
    tokens_[fd] = token;
    return {};
}

void EventLoop::remove(int fd) {
    auto found = tokens_.find(fd);
    if (found == tokens_.end()) return;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    handlers_.erase(found->second);
    tokens_.erase(found);
}

EventLoop::TimerId EventLoop::after(std::chrono::nanoseconds delay, std::function<void()> action) {
    TimerId id = next_timer_++;
    timers_.emplace(Clock::now() + delay, std::pair(id, std::move(action)));
    return id;
}

void EventLoop::cancel(TimerId timer) {
    auto found =
        std::ranges::find_if(timers_, [&](const auto& entry) { return entry.second.first == timer; });
    if (found != timers_.end()) timers_.erase(found);
}

void EventLoop::on_idle(std::function<bool()> before_sleep, std::function<void()> after_sleep) {
    before_sleep_ = std::move(before_sleep);
    after_sleep_ = std::move(after_sleep);
}

int EventLoop::timeout_ms() const {
    if (timers_.empty()) return kLongestWaitMs;
    auto left = std::chrono::ceil<std::chrono::milliseconds>(timers_.begin()->first - Clock::now());
    return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, kLongestWaitMs));
}

void EventLoop::run_timers() {
    while (!timers_.empty() && timers_.begin()->first <= Clock::now()) {
        auto action = std::move(timers_.begin()->second.second);
        timers_.erase(timers_.begin());
        action();
    }
}

void EventLoop::wait_once() {
    std::array<epoll_event, 64> events;
    bool busy = before_sleep_();
    int count =
        ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), busy ? 0 : timeout_ms());
    after_sleep_();
    const Clock::time_point enough = Clock::now() + kHandlersTake;
    for (int i = 0; i < count; ++i) {
        if (i > 0 && Clock::now() > enough)
            break;  // timers get their turn. What is left is still there, or only ended the wait
        const std::uint64_t token = events[i].data.u64;  // a copy: the struct is packed
        auto found = handlers_.find(token);
        if (found == handlers_.end()) continue;  // removed by a handler before it in this round
        std::shared_ptr<Handler> handler = found->second;
        (*handler)(events[i].events);
    }
    run_timers();
}

void EventLoop::run() {
    while (!stopped_)
        wait_once();
}

}  // namespace sl
