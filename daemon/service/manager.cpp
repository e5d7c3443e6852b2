// See manager.h.
#include "daemon/service/manager.h"

#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>

#include <algorithm>
#include <cstdint>
#include <ctime>

namespace sl {

namespace {

constexpr std::chrono::seconds kStatusEvery{1};
// Two beats may be late before the manager takes the daemon for hung.
constexpr int kBeatsAWatchdogTime = 3;

std::string counted(std::size_t number, const char* one) {
    return std::to_string(number) + " " + one + (number == 1 ? "" : "s");
}

// By the clock that the manager compares it with (Type=notify-reload).
std::string monotonic_us() {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return std::to_string(std::uint64_t(time.tv_sec) * 1'000'000 + std::uint64_t(time.tv_nsec) / 1000);
}

}  // namespace

ServiceManager::ServiceManager(EventLoop& loop, bool is_private, std::function<Load()> load)
    : loop_(loop), load_(std::move(load)) {
    if (is_private) return;
    auto socket = NotifySocket::of_environment();
    if (!socket) spdlog::warn("cannot tell the service manager: {}", socket.error().message);
    if (!socket || !*socket) return;
    socket_ = std::move(*socket);
    std::uint64_t watchdog_us = 0;
    if (::sd_watchdog_enabled(0, &watchdog_us) > 0) watchdog_ = std::chrono::microseconds(watchdog_us);
    every_ = kStatusEvery;
    if (watchdog_.count() > 0) every_ = std::min(every_, watchdog_ / kBeatsAWatchdogTime);
}

ServiceManager::~ServiceManager() {
    loop_.cancel(timer_);
}

std::string ServiceManager::status() const {
    const Load load = load_();
    return "STATUS=" + counted(load.clients, "client") + ", " + counted(load.streams, "stream");
}

void ServiceManager::ready() {
    if (!socket_) return;
    told_status_ = status();
    say_for_sure("READY=1\n" + told_status_);
    loop_.cancel(timer_);
    timer_ = loop_.after(every_, [this] { beat(); });
}

void ServiceManager::reloading() {
    if (!socket_) return;
    owed_.clear();  // its end says all that an earlier one's would have
    say_for_sure("RELOADING=1\nMONOTONIC_USEC=" + monotonic_us() + "\nSTATUS=reloading");
}

void ServiceManager::stopping() {
    loop_.cancel(timer_);
    if (socket_) say("STOPPING=1\nSTATUS=stopping");
}

void ServiceManager::beat() {
    say_what_is_owed();
    std::string state;
    if (watchdog_.count() > 0) state = "WATCHDOG=1\n";
    std::string now = status();
    if (now != told_status_) state += now;
    if (owed_.empty() && !state.empty() && say(state)) told_status_ = std::move(now);
    timer_ = loop_.after(every_, [this] { beat(); });
}

void ServiceManager::say_for_sure(std::string state) {
    owed_.push_back(std::move(state));
    say_what_is_owed();
}

void ServiceManager::say_what_is_owed() {
    while (!owed_.empty() && say(owed_.front()))
        owed_.pop_front();
}

bool ServiceManager::say(const std::string& state) {
    auto sent = socket_->send(state);
    if (sent) return *sent;
    spdlog::warn("cannot tell the service manager: {}", sent.error().message);
    return true;
}

}  // namespace sl
