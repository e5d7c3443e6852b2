// What the daemon says to the service manager that started it: ready, reloading, stopping, alive, and a line
// of status.
//
// On the conductor's thread. "Alive" is a timer of the event loop and nothing else, so it is said only as
// long as the loop turns: the manager restarts a daemon whose loop hangs, also while its other threads run.
// A manager that is slow to read is never waited for: what it has to know is said again, the rest dropped.
// Where no manager listens nothing happens; a message that cannot be sent is no failure of the daemon's.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "daemon/pool/event_loop.h"
#include "daemon/service/notify_socket.h"

namespace sl {

class ServiceManager {
  public:
    struct Load {
        std::size_t clients = 0;
        std::size_t streams = 0;
    };

    // `is_private`: the manager in the environment is the one of the job that started this daemon, and is
    // told nothing.
    ServiceManager(EventLoop& loop, bool is_private, std::function<Load()> load);
    ~ServiceManager();
    ServiceManager(const ServiceManager&) = delete;
    ServiceManager& operator=(const ServiceManager&) = delete;

    // Clients are answered from now on; also the end of a reload.
    void ready();
    // The configuration is being read again; ready() must follow.
    void reloading();
    // No client is answered any more.
    void stopping();

  private:
    void beat();
    // Whether it was said, or never can be.
    bool say(const std::string& state);
    void say_for_sure(std::string state);
    void say_what_is_owed();
    [[nodiscard]] std::string status() const;

    EventLoop& loop_;
    std::function<Load()> load_;
    std::optional<NotifySocket> socket_;     // none: no manager listens
    std::chrono::microseconds watchdog_{0};  // 0: nobody watches
    std::chrono::microseconds every_{0};
    EventLoop::TimerId timer_ = 0;
    std::string told_status_;
    std::deque<std::string> owed_;  // in order; no more than a reload and its end
};

}  // namespace sl
