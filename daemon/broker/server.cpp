#include "daemon/broker/server.h"

#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "shm/fault.h"

namespace sl {

namespace {
constexpr std::chrono::seconds kGreetingDeadline{10};
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr int kAcceptsAtOnce = 16;  // then the others get their turn; the listener stays readable
}  // namespace

Server::Server(EventLoop& loop, Conductor& conductor, UniqueFd listener, ServerOptions options)
    : loop_(loop),
      conductor_(conductor),
      listener_(std::move(listener)),
      options_(std::move(options)),
      rights_(options_.is_private),
      refusals_(loop, *packet_),
      goodbyes_(loop),
      documents_(loop, conductor.background()) {}

Result<std::unique_ptr<Server>> Server::create(EventLoop& loop, Conductor& conductor, UniqueFd listener,
                                               ServerOptions options) {
    std::unique_ptr<Server> server(new Server(loop, conductor, std::move(listener), std::move(options)));
    if (auto renewed = server->renew(server->options_.roots, server->options_.limits); !renewed)
        return std::unexpected(std::move(renewed).error());
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
    auto peer = peer_of(socket.get());
    if (!peer) return;
    if (auto why = refusal(*peer)) return refuse(std::move(socket), *peer, std::move(*why));
    UniqueFd pidfd = process_of(socket.get(), *peer);
    if (!pidfd) return;  // gone already
    SL_FAULT(daemon_accepted);
    std::uint64_t id = next_id_++;
    int socket_fd = socket.get();
    int process_fd = pidfd.get();
    const uid_t uid = peer->user.uid;
    Session::Context context{.conductor = conductor_,
                             .scans = *scans_,
                             .rights = rights_,
                             .packet = *packet_,
                             .documents = documents_,
                             .status = [this](const Viewer& viewer) { return status(viewer); },
                             .streams = [this, uid] { return streams_of(uid); }};
    sessions_[id] = std::make_unique<Session>(std::move(context), id, std::move(socket), std::move(pidfd),
                                              std::move(*peer));
    auto added = loop_.add(socket_fd, [this, id](std::uint32_t) {
        auto found = sessions_.find(id);
        if (found != sessions_.end() && !found->second->on_readable()) end(id);
    });
    if (added) added = loop_.add(process_fd, [this, id](std::uint32_t) { end(id); });
    if (!added) return end(id);
    loop_.cancel(linger_timer_);
    watch_greetings();
}

// Nothing, if it may come in.
std::optional<Error> Server::refusal(const Peer& peer) {
    const uid_t uid = peer.user.uid;
    if (options_.is_private && uid != ::geteuid() && uid != 0) {
        return Error{Status::kDenied,
                     "user " + std::to_string(uid) + " is not served: this private daemon serves user " +
                         std::to_string(::geteuid()) + " only",
                     0};
    }
    const Limits limits = rights_.limits(uid);
    if (!connects_.take(uid, limits.connects, std::chrono::steady_clock::now()))
        return beyond_limit(uid, limits.connects, "connects");
    if (limits.clients != 0 && clients_of(uid) >= limits.clients)
        return beyond_limit(uid, limits.clients, "clients");
    return std::nullopt;
}

// One line a second, however many come.
void Server::refuse(UniqueFd socket, const Peer& peer, Error why) {
    const auto now = std::chrono::steady_clock::now();
    if (now - told_ > std::chrono::seconds(1)) {
        told_ = now;
        spdlog::warn("client {} refused: {}", peer.pid, why.message);
    }
    refusals_.add(std::move(socket), std::move(why));
}

// Looks each second while there is one that has not said what it is: a timer each would be left behind by
// every client that goes at once.
void Server::watch_greetings() {
    if (std::exchange(watching_greetings_, true)) return;
    loop_.after(std::chrono::seconds(1), [this] {
        watching_greetings_ = false;
        const auto long_ago = std::chrono::steady_clock::now() - kGreetingDeadline;
        std::vector<std::uint64_t> silent;
        bool others = false;
        for (const auto& [id, session] : sessions_) {
            if (session->greeted()) continue;
            if (session->since() <= long_ago) {
                silent.push_back(id);
            } else {
                others = true;
            }
        }
        for (const std::uint64_t id : silent)
            end(id);
        if (others) watch_greetings();
    });
}

std::size_t Server::clients_of(uid_t uid) const {
    auto count = static_cast<std::size_t>(
        std::ranges::count_if(sessions_, [uid](const auto& entry) { return entry.second->uid() == uid; }));
    count += goodbyes_.of(uid);
    for (const auto& [number, crew] : conductor_.crews().all()) {
        if (!crew->is_native() && crew->uid == uid) count += crew->pool->living();
    }
    return count;
}

std::size_t Server::streams_of(uid_t uid) const {
    std::size_t count = 0;
    for (const auto& [id, session] : sessions_)
        count += session->uid() == uid ? session->streams() : 0;
    return count;
}

void Server::end(std::uint64_t id) {
    auto found = sessions_.find(id);
    if (found == sessions_.end()) return;
    auto guest = found->second->take_guest();
    loop_.remove(guest ? guest->socket.get() : found->second->socket());
    loop_.remove(guest ? guest->pidfd.get() : found->second->pidfd());
    const uid_t uid = found->second->uid();
    UniqueFd socket = found->second->take_socket();
    sessions_.erase(found);
    goodbyes_.add(std::move(socket), uid);
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
    conductor_.kept_memory().look();
    daemon.kept_bytes =
        conductor_.kept_memory().sum(viewer.sees_all ? std::nullopt : std::optional(viewer.uid)).bytes;
    for (const auto& [id, session] : sessions_)
        daemon.sessions.push_back(session->status());
    return status_json(daemon, conductor_, viewer);
}

}  // namespace sl
