// See manager.h.
#include "daemon/service/manager.h"

#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
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
    listens_ = !is_private && std::getenv("NOTIFY_SOCKET") != nullptr;
    if (!listens_) return;
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
    if (!listens_) return;
    told_status_ = status();
    say("READY=1\n" + told_status_);
    loop_.cancel(timer_);
    timer_ = loop_.after(every_, [this] { beat(); });
}

void ServiceManager::reloading() {
    if (listens_) say("RELOADING=1\nMONOTONIC_USEC=" + monotonic_us() + "\nSTATUS=reloading");
}

void ServiceManager::stopping() {
    loop_.cancel(timer_);
    if (listens_) say("STOPPING=1\nSTATUS=stopping");
}

void ServiceManager::beat() {
    std::string state;
    if (watchdog_.count() > 0) state = "WATCHDOG=1\n";
    if (std::string now = status(); now != told_status_) state += told_status_ = std::move(now);
    if (!state.empty()) say(state);
    timer_ = loop_.after(every_, [this] { beat(); });
}

void ServiceManager::say(const std::string& state) {
    const int sent = ::sd_notify(0, state.c_str());
    if (sent < 0) spdlog::warn("cannot tell the service manager: {}", std::strerror(-sent));
}

}  // namespace sl
