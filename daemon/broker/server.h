// The server: accepts clients, keeps their sessions, and knows when the daemon may go.
//
// On the conductor's thread. Who a client is comes from the kernel (peer credentials, pidfd), never from what
// it says. A client that connects and says nothing is detached after a deadline. A private daemon serves its
// own user only and leaves when it has been alone for a while.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "daemon/broker/session.h"

namespace sl {

struct ServerOptions {
    std::string socket_name;      // for the status
    WorkerProgram worker_program;  // for scans that must look at a picture
    std::string manifest_folder;  // where scans are kept; empty: nowhere
    bool is_private = false;
    std::chrono::milliseconds linger{2000};  // private: leave after being alone for so long
};

class Server {
  public:
    static Result<std::unique_ptr<Server>> create(EventLoop& loop, Conductor& conductor, UniqueFd listener,
                                                  ServerOptions options);
    ~Server();
    // Ends all sessions. False if a scan has not returned: then it is left to the process's end.
    bool shut_down();
    [[nodiscard]] std::size_t clients() const { return sessions_.size(); }

  private:
    Server(EventLoop& loop, Conductor& conductor, UniqueFd listener, ServerOptions options);

    void accept_all();
    void accept_one(UniqueFd socket);
    void end(std::uint64_t id);
    void take_in(Guest guest);
    void leave_if_alone();
    [[nodiscard]] std::string status(const Viewer& viewer) const;

    EventLoop& loop_;
    Conductor& conductor_;
    UniqueFd listener_;
    ServerOptions options_;
    std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
    std::unique_ptr<ScanQueue> scans_;
    std::uint64_t next_id_ = 1;
    std::map<std::uint64_t, std::unique_ptr<Session>> sessions_;
    EventLoop::TimerId linger_timer_ = 0;
};

}  // namespace sl
