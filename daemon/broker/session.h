// A session: one attached client, its streams, and the conversation with it.
//
// Owned by the server, on the conductor's thread. Everything it reads from the client is copied, then
// checked; a client that breaks the protocol is detached with a reason, and only it. The session ends with
// the socket (an orderly detach) or with the process (its pidfd, so that a forked child that keeps the socket
// does not keep a dead parent's leases); either way its streams end with it. A session whose peer turns out
// to be a guest worker ends too, and hands its socket over to the worker's crew.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/broker/peer.h"
#include "daemon/broker/rights.h"
#include "daemon/broker/scan_queue.h"
#include "daemon/observe/status.h"
#include "daemon/stream/conductor.h"
#include "daemon/stream/item_inbox.h"
#include "shm/socket.h"

namespace sl {

class Session {
  public:
    struct Context {
        Conductor& conductor;
        ScanQueue& scans;
        const Rights& rights;
        Packet& packet;         // the server's: one for all, since each is handled at once
        KeptMemory& documents;  // of all, that have been sent
        std::function<std::string(const Viewer&)> status;  // the daemon's, as JSON
        std::function<std::size_t()> streams;              // of this user, those being opened included
    };

    Session(Context context, std::uint64_t id, UniqueFd socket, UniqueFd pidfd, Peer peer);
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    // Handles the messages that wait, a few at most so that others get their turn (the socket stays
    // readable); false once the session is over.
    bool on_readable();
    // Of a session that is over: the guest worker that its peer wants to be, with the session's descriptors.
    std::optional<Guest> take_guest() { return std::exchange(guest_, std::nullopt); }

    // Of one that is over and no guest: its socket.
    [[nodiscard]] UniqueFd take_socket() { return std::move(socket_); }

    [[nodiscard]] int socket() const { return socket_.get(); }
    [[nodiscard]] int pidfd() const { return pidfd_.get(); }
    // Whether it has said what it is; a guest worker has when it has named its crew.
    [[nodiscard]] bool greeted() const { return greeted_ && !is_guest_; }
    [[nodiscard]] std::chrono::steady_clock::time_point since() const { return since_; }
    [[nodiscard]] uid_t uid() const { return peer_.user.uid; }
    // Those that are being opened included.
    [[nodiscard]] std::size_t streams() const { return streams_.size() + opening_; }
    [[nodiscard]] SessionStatus status() const;
    [[nodiscard]] Viewer viewer() const { return Viewer::of(uid()); }

  private:
    bool handle(const Packet& packet);
    bool detach(const Packet& packet, const Error& why);
    bool on_hello(const Packet& packet);
    bool on_guest(const Packet& packet);
    bool on_items(const Packet& packet);
    bool on_open(const Packet& packet);
    bool open_items(std::uint32_t request, const Stream::Wish& wish, const Spec& spec,
                    Result<std::shared_ptr<const ItemOrder>> order);
    [[nodiscard]] Result<std::string> absolute_path(const std::string& path) const;
    Result<ScanQueue::Reaches> reaches_of(Spec& spec) const;
    [[nodiscard]] std::optional<Error> too_many_streams() const;
    [[nodiscard]] std::uint64_t most_bytes() const { return context_.rights.limits(uid()).bytes.value_or(0); }
    bool on_close(const Packet& packet);
    bool on_report(const Packet& packet);
    void start_stream(std::uint32_t request, const Stream::Wish& wish, ScanQueue::Scanned found);
    bool hand_over(std::uint32_t request, Stream& stream);
    Result<void> send_segments(std::uint32_t request, Stream& stream);
    bool reply_error(std::uint32_t request, const Error& error);
    // Answers with a descriptor that a client may leave unread, as the kernel counts bytes: some thirty.
    // Descriptors under way count for the daemon's user, and too many of them would stop everybody's.
    static constexpr int kMostUnread = 24 * 1024;
    [[nodiscard]] bool reads(int most_unread) const;
    [[nodiscard]] bool may_have_a_document();
    bool reply_document(std::uint32_t request, std::initializer_list<std::span<const std::byte>> parts);
    bool reply_json(std::uint32_t request, const std::string& json);
    bool on_trace(std::uint32_t request);
    bool sent(const Result<void>& result);
    void hang_up();

    Context context_;
    std::uint64_t id_;
    UniqueFd socket_;
    UniqueFd pidfd_;
    Peer peer_;
    std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
    std::string program_;
    bool greeted_ = false;
    bool is_guest_ = false;  // by its HELLO
    std::optional<Guest> guest_;
    std::map<std::uint64_t, Stream*> streams_;
    ItemInbox items_;          // for the OPEN that must follow
    std::size_t opening_ = 0;  // scans and streams that were asked for and have not come
    // Answers that come later hold a weak pointer to it: it ends with the session.
    std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace sl
