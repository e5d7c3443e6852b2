// The server: accepts clients, keeps their sessions, and knows when the daemon may go.
//
// On the conductor's thread. Who a client is comes from the kernel (peer credentials, pidfd), never from what
// it says. A client that connects and says nothing costs two descriptors and is detached after a deadline;
// one beyond its user's limits is told so. A private daemon serves its own user only and leaves when it has
// been alone for a while.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "daemon/broker/goodbyes.h"
#include "daemon/broker/refusals.h"
#include "daemon/broker/rights.h"
#include "daemon/broker/session.h"

namespace sl {

struct ServerOptions {
    std::string socket_name;       // for the status
    WorkerProgram worker_program;  // for scans that must look at a picture
    std::string manifest_folder;   // where scans are kept; empty: nowhere
    bool is_private = false;
    std::vector<RootSetting> roots;
    Limits limits;
    std::chrono::milliseconds linger{2000};  // private: leave after being alone for so long
};

class Server {
  public:
    static Result<std::unique_ptr<Server>> create(EventLoop& loop, Conductor& conductor, UniqueFd listener,
                                                  ServerOptions options);
    ~Server();
    // Takes other roots and limits; what is open stays open. On an error all stays as it was.
    Result<void> renew(const std::vector<RootSetting>& roots, const Limits& limits) {
        return rights_.renew(roots, limits);
    }
    // Ends all sessions. False if a scan has not returned: then it is left to the process's end.
    bool shut_down();
    [[nodiscard]] std::size_t clients() const { return sessions_.size(); }

  private:
    Server(EventLoop& loop, Conductor& conductor, UniqueFd listener, ServerOptions options);

    void accept_all();
    void accept_one(UniqueFd socket);
    std::optional<Error> refusal(const Peer& peer);
    void refuse(UniqueFd socket, const Peer& peer, Error why);
    void watch_greetings();
    [[nodiscard]] std::size_t clients_of(uid_t uid) const;
    [[nodiscard]] std::size_t streams_of(uid_t uid) const;
    void end(std::uint64_t id);
    void take_in(Guest guest);
    void leave_if_alone();
    [[nodiscard]] std::string status(const Viewer& viewer) const;

    EventLoop& loop_;
    Conductor& conductor_;
    UniqueFd listener_;
    ServerOptions options_;
    std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
    Rights rights_;
    ConnectRate connects_;
    std::unique_ptr<Packet> packet_ = std::make_unique<Packet>();
    Refusals refusals_;
    std::chrono::steady_clock::time_point told_;  // of refusals, in the log
    bool watching_greetings_ = false;
    Goodbyes goodbyes_;
    KeptMemory documents_;  // answers that clients have not let go of
    std::unique_ptr<ScanQueue> scans_;
    std::uint64_t next_id_ = 1;
    std::map<std::uint64_t, std::unique_ptr<Session>> sessions_;
    EventLoop::TimerId linger_timer_ = 0;
};

}  // namespace sl
