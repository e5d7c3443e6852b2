#include "daemon/broker/session.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>

#include "daemon/broker/goodbyes.h"
#include "shm/fault.h"

namespace sl {

namespace {

// Then the others get their turn.
constexpr int kMessagesAtOnce = 16;
constexpr std::chrono::milliseconds kTimeAtOnce{1};
constexpr std::size_t kLargeDocument = 1 << 20;
// Documents of a user that have not been let go of: four large traces, or so many small ones.
constexpr std::size_t kMostDocuments = 64;
constexpr std::uint64_t kMostDocumentBytes = 64 << 20;

std::string text_of(std::span<const char> field) {
    return {field.data(), ::strnlen(field.data(), field.size())};
}

std::string version_text(unsigned major, unsigned minor) {
    return std::to_string(major) + "." + std::to_string(minor);
}

Error unknown_message(const sl_message& head) {
    std::string text = "unknown message " + std::to_string(head.type);
    if (head.minor > SL_SHM_MINOR) {
        text += ": the daemon is too old for it, it speaks protocol " +
                version_text(SL_SHM_MAJOR, SL_SHM_MINOR) + ", the client " +
                version_text(head.major, head.minor);
    }
    return {Status::kProtocol, std::move(text), 0};
}

}  // namespace

Session::Session(Context context, std::uint64_t id, UniqueFd socket, UniqueFd pidfd, Peer peer)
    : context_(std::move(context)),
      id_(id),
      socket_(std::move(socket)),
      pidfd_(std::move(pidfd)),
      peer_(std::move(peer)) {}

Session::~Session() {
    alive_.reset();
    for (auto& [id, stream] : streams_)
        context_.conductor.close(stream);
    context_.conductor.owner_gone(id_);
}

SessionStatus Session::status() const {
    SessionStatus status{peer_.pid, uid(), program_, {}};
    for (const auto& [id, stream] : streams_)
        status.streams.push_back(id);
    return status;
}

bool Session::sent(const Result<void>& result) {
    if (!result) spdlog::warn("client {} detached: {}", peer_.pid, result.error().message);
    return result.has_value();
}

// Ends the session where its owner does not wait for an answer: the socket becomes readable and says so.
void Session::hang_up() {
    ::shutdown(socket_.get(), SHUT_RDWR);
}

bool Session::reply_error(std::uint32_t request, const Error& error) {
    auto message = make_message<sl_msg_error>(SL_MSG_ERROR, request);
    message.status = static_cast<std::int32_t>(error.status);
    message.os_errno = error.os_errno;
    copy_text(message.message, error.message);
    return sent(send_struct(socket_.get(), message));
}

// Whether at most so many bytes of answers are unread.
bool Session::reads(int most_unread) const {
    if (unread(socket_.get()) <= most_unread) return true;
    spdlog::warn("client {} detached: it does not read its answers", peer_.pid);
    return false;
}

bool Session::may_have_a_document() {
    const auto has_room = [this] {
        const KeptMemory::Sum kept = context_.documents.sum(uid());
        return kept.count < kMostDocuments && kept.bytes < kMostDocumentBytes;
    };
    if (!has_room()) context_.documents.look();
    return has_room();
}

bool Session::reply_document(std::uint32_t request, std::initializer_list<std::span<const std::byte>> parts) {
    std::size_t bytes = 0;
    for (const auto& part : parts)
        bytes += part.size();
    // A trace is large, and no user's account has it: one at a time.
    if (!reads(bytes < kLargeDocument ? kMostUnread : 0)) return false;
    if (!may_have_a_document()) {
        return reply_error(request, {Status::kBudget,
                                     "user " + std::to_string(uid()) +
                                         " keeps as many answers (status, reports, traces) as it may have: "
                                         "close their descriptors",
                                     0});
    }
    auto segment = Segment::create("speedyloader-document", bytes);
    if (!segment) return reply_error(request, segment.error());
    std::byte* to = segment->data();
    for (const auto& part : parts) {
        if (!part.empty()) std::memcpy(to, part.data(), part.size());
        to += part.size();
    }
    auto fd = segment->seal_against_writers()
                  ? segment->read_only_fd()
                  : Result<UniqueFd>(fail(Status::kInternal, "cannot seal a document"));
    if (!fd) return reply_error(request, fd.error());
    auto message = make_message<sl_msg_document>(SL_MSG_DOCUMENT, request);
    message.bytes = bytes;
    const bool answered = sent(send_struct(socket_.get(), message, {}, fd->get()));
    fd->reset();
    KeptMemory::Memory memory;
    memory.lent.push_back(std::move(*segment));
    context_.documents.give_up(uid(), std::move(memory));
    return answered;
}

bool Session::reply_json(std::uint32_t request, const std::string& json) {
    return reply_document(request, {std::as_bytes(std::span(json))});
}

// A copy, which costs the conductor a millisecond or two; what it says is made of it by the client.
bool Session::on_trace(std::uint32_t request) {
    const Viewer who = viewer();
    const Trace::Document trace =
        context_.conductor.trace().document(who.sees_all ? std::nullopt : std::optional(who.uid));
    return reply_document(
        request, {std::as_bytes(std::span(&trace.header, 1)), std::as_bytes(std::span(trace.events))});
}

bool Session::on_readable() {
    const auto enough = std::chrono::steady_clock::now() + kTimeAtOnce;
    for (int handled = 0; handled < kMessagesAtOnce; ++handled) {
        if (handled > 0 && std::chrono::steady_clock::now() > enough)
            return true;  // the socket stays readable
        std::string why;
        switch (receive(socket_.get(), context_.packet, why, Carry::kNothing)) {
            case Received::kNothing:
                return true;
            case Received::kClosed:
                return false;
            case Received::kMalformed:
                spdlog::warn("client {} detached: {}", peer_.pid, why);
                return false;
            case Received::kMessage: {
                if (!handle(context_.packet)) return false;
            }
        }
    }
    return true;
}

// The reason goes to the client too.
bool Session::detach(const Packet& packet, const Error& why) {
    spdlog::warn("client {} detached: {}", peer_.pid, why.message);
    static_cast<void>(reply_error(packet.head().request, why));
    return false;
}

bool Session::handle(const Packet& packet) {
    const sl_message& head = packet.head();
    if (packet.carried)
        return detach(packet, {Status::kProtocol, "it sent a descriptor that nobody asked for", 0});
    if (!greeted_ && head.type != SL_MSG_HELLO) {
        return reply_error(head.request, {Status::kProtocol, "the first message must be HELLO", 0});
    }
    if (is_guest_) return on_guest(packet);
    switch (head.type) {
        case SL_MSG_HELLO:
            return on_hello(packet);
        case SL_MSG_ITEMS:
            return on_items(packet);
        case SL_MSG_OPEN:
            return on_open(packet);
        case SL_MSG_CLOSE:
            return on_close(packet);
        case SL_MSG_STATUS:
            return reply_json(head.request, context_.status(viewer()));
        case SL_MSG_REPORT:
            return on_report(packet);
        case SL_MSG_TRACE:
            return on_trace(head.request);
        default:
            return reply_error(head.request, unknown_message(head));
    }
}

bool Session::on_hello(const Packet& packet) {
    const auto* hello = packet.as<sl_msg_hello>();
    const sl_message& head = packet.head();
    // First: in another major version all else may be different.
    if (head.major != SL_SHM_MAJOR) {
        const bool client_is_old = head.major < SL_SHM_MAJOR;
        return detach(packet,
                      {Status::kVersion,
                       std::string("the ") + (client_is_old ? "client" : "daemon") +
                           " is too old: the client speaks protocol " + version_text(head.major, head.minor) +
                           ", the daemon (" SL_VERSION ") " + version_text(SL_SHM_MAJOR, SL_SHM_MINOR),
                       0});
    }
    if (greeted_) return detach(packet, {Status::kProtocol, "a second HELLO", 0});
    if (hello == nullptr) return reply_error(head.request, {Status::kProtocol, "HELLO is too short", 0});
    if (hello->role != SL_ROLE_CLIENT && hello->role != SL_ROLE_GUEST) {
        return reply_error(head.request,
                           {Status::kUnsupported, "only clients and guest workers attach to this socket", 0});
    }
    is_guest_ = hello->role == SL_ROLE_GUEST;
    program_ = text_of(hello->program);
    greeted_ = true;
    SL_FAULT(daemon_hello_heard);
    auto reply = make_message<sl_msg_hello_reply>(SL_MSG_HELLO_REPLY, head.request);
    reply.boot_id = context_.conductor.boot_id();
    reply.daemon_pid = ::getpid();
    copy_text(reply.version, SL_VERSION);
    const bool answered = sent(send_struct(socket_.get(), reply));
    SL_FAULT(daemon_hello_replied);
    return answered;
}

// The session is over either way: its owner hands the descriptors to the crew, or hangs up.
bool Session::on_guest(const Packet& packet) {
    const auto* message = packet.as<sl_msg_guest>();
    const std::uint32_t request = packet.head().request;
    if (packet.head().type != SL_MSG_GUEST || message == nullptr) {
        reply_error(request, {Status::kProtocol, "a guest worker must say which crew it is of", 0});
        return false;
    }
    guest_ = Guest{.crew = message->crew,
                   .workers = message->workers,
                   .request = request,
                   .pid = peer_.pid,
                   .uid = uid(),
                   .socket = std::move(socket_),
                   .pidfd = std::move(pidfd_)};
    return false;
}

bool Session::on_close(const Packet& packet) {
    const auto* close = packet.as<sl_msg_stream>();
    std::uint32_t request = packet.head().request;
    if (close == nullptr) return reply_error(request, {Status::kProtocol, "CLOSE is too short", 0});
    auto found = streams_.find(close->stream_id);
    if (found == streams_.end()) return reply_error(request, {Status::kInvalidArgument, "no such stream", 0});
    SL_FAULT(daemon_close_heard);
    auto reply = make_message<sl_msg_stream>(SL_MSG_CLOSE_REPLY, request);
    reply.stream_id = close->stream_id;
    // Answered once the stream's memory is free: who closes one and opens the next needs it.
    context_.conductor.close(found->second, [this, alive = std::weak_ptr(alive_), reply]() mutable {
        if (!alive.expired() && !sent(send_struct(socket_.get(), reply))) hang_up();
        SL_FAULT(daemon_close_replied);
    });
    streams_.erase(found);
    return true;
}

bool Session::on_report(const Packet& packet) {
    const auto* report = packet.as<sl_msg_stream>();
    std::uint32_t request = packet.head().request;
    if (report == nullptr) return reply_error(request, {Status::kProtocol, "REPORT is too short", 0});
    auto found = streams_.find(report->stream_id);
    if (found == streams_.end()) return reply_error(request, {Status::kInvalidArgument, "no such stream", 0});
    return reply_json(request, report_json(*found->second));
}

}  // namespace sl
