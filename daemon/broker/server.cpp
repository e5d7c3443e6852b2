#include "daemon/broker/server.h"

#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "shm/fault.h"

namespace sl {

namespace {
constexpr std::chrono::seconds kGreetingDeadline{10};
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr int kAcceptsAtOnce = 16;  // then the others get their turn; the listener stays readable
}  // namespace

Server::Server(EventLoop& loop, Conductor& conductor, UniqueFd listener, ServerOptions options)
    : loop_(loop), conductor_(conductor), listener_(std::move(listener)), options_(std::move(options)) {}

Result<std::unique_ptr<Server>> Server::create(EventLoop& loop, Conductor& conductor, UniqueFd listener,
                                               ServerOptions options) {
    std::unique_ptr<Server> server(new Server(loop, conductor, std::move(listener), std::move(options)));
    auto scans = ScanQueue::create(
        loop, {server->options_.worker_program, server->options_.manifest_folder, &conductor.quarantine()});
    if (!scans) return std::unexpected(scans.error());
    server->scans_ = std::move(*scans);
    auto added =
        loop.add(server->listener_.get(), [raw = server.get()](std::uint32_t) { raw->accept_all(); });
    if (!added) return std::unexpected(added.error());
    server->leave_if_alone();
    return server;
}

bool Server::shut_down() {
    loop_.remove(listener_.get());
    listener_.reset();  // who connects now is told at once that nobody is here
    for (auto& [id, session] : sessions_) {
        loop_.remove(session->socket());
        loop_.remove(session->pidfd());
    }
    sessions_.clear();
    constexpr std::chrono::milliseconds kGrace{500};
    bool ended = scans_ == nullptr || scans_->finish(kGrace);
    if (!ended) static_cast<void>(scans_.release());  // its threads write into it
    scans_.reset();
    return ended;
}

Server::~Server() {
    shut_down();
}

void Server::accept_all() {
    for (int accepted = 0; accepted < kAcceptsAtOnce; ++accepted) {
        UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (socket) {
            accept_one(std::move(socket));
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
            // Level-triggered: without a pause this would spin until somebody leaves.
            spdlog::warn("cannot accept a client now: out of descriptors or memory");
            loop_.remove(listener_.get());
            loop_.after(kAcceptPause, [this] {
                if (auto added = loop_.add(listener_.get(), [this](std::uint32_t) { accept_all(); });
                    !added) {
                    spdlog::error("{}", added.error().message);
                }
            });
        }
        return;
    }
}

void Server::accept_one(UniqueFd socket) {
    ucred peer{};
    socklen_t length = sizeof peer;
    if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return;
    if (options_.is_private && peer.uid != ::geteuid() && peer.uid != 0) {
        spdlog::warn("user {} refused: this daemon serves user {} only", peer.uid, ::geteuid());
        return;
    }
    UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0)));
    if (!pidfd) return;  // gone already
    SL_FAULT(daemon_accepted);
    std::uint64_t id = next_id_++;
    int socket_fd = socket.get();
    int process_fd = pidfd.get();
    Session::Context context{conductor_, *scans_, [this](const Viewer& viewer) { return status(viewer); }};
    sessions_[id] = std::make_unique<Session>(std::move(context), id, std::move(socket), std::move(pidfd),
                                              peer.pid, peer.uid);
    auto added = loop_.add(socket_fd, [this, id](std::uint32_t) {
        auto found = sessions_.find(id);
        if (found != sessions_.end() && !found->second->on_readable()) end(id);
    });
    if (added) added = loop_.add(process_fd, [this, id](std::uint32_t) { end(id); });
    if (!added) return end(id);
    loop_.cancel(linger_timer_);
    loop_.after(kGreetingDeadline, [this, id] {
        auto found = sessions_.find(id);
        if (found != sessions_.end() && !found->second->greeted()) end(id);
    });
}

void Server::end(std::uint64_t id) {
    auto found = sessions_.find(id);
    if (found == sessions_.end()) return;
    auto guest = found->second->take_guest();
    loop_.remove(guest ? guest->socket.get() : found->second->socket());
    loop_.remove(guest ? guest->pidfd.get() : found->second->pidfd());
    sessions_.erase(found);
    SL_FAULT(daemon_session_ended);
    if (guest) take_in(std::move(*guest));
    leave_if_alone();
}

// A guest worker is no client: it keeps no private daemon from leaving.
void Server::take_in(Guest guest) {
    auto attached = conductor_.attach_guest(guest);
    if (attached) return;
    spdlog::warn("guest worker {} refused: {}", guest.pid, attached.error().message);
    if (!guest.socket) return;
    auto message = make_message<sl_msg_error>(SL_MSG_ERROR, guest.request);
    message.status = static_cast<std::int32_t>(attached.error().status);
    message.os_errno = attached.error().os_errno;
    copy_text(message.message, attached.error().message);
    // It hangs up right after; who cannot be told sees that.
    static_cast<void>(send_struct(guest.socket.get(), message));
}

void Server::leave_if_alone() {
    if (!options_.is_private || !sessions_.empty()) return;
    linger_timer_ = loop_.after(options_.linger, [this] {
        if (!sessions_.empty()) return;
        spdlog::info("the last client has gone: leaving");
        loop_.stop();
    });
}

std::string Server::status(const Viewer& viewer) const {
    DaemonStatus daemon{options_.socket_name, options_.is_private, started_, {}, {}};
    daemon.scans = scans_->status();
    daemon.scans_made = scans_->made();
    daemon.manifests_used = scans_->recalled();
    for (const auto& [id, session] : sessions_)
        daemon.sessions.push_back(session->status());
    return status_json(daemon, conductor_, viewer);
}

}  // namespace sl
