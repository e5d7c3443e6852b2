#include "daemon/broker/session.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <span>

#include "shm/fault.h"

namespace sl {

namespace {

constexpr int kMessagesAtOnce = 16;

std::string text_of(std::span<const char> field) {
    return {field.data(), ::strnlen(field.data(), field.size())};
}

}  // namespace

Session::Session(Context context, std::uint64_t id, UniqueFd socket, UniqueFd pidfd, pid_t pid, uid_t uid)
    : context_(std::move(context)),
      id_(id),
      socket_(std::move(socket)),
      pidfd_(std::move(pidfd)),
      pid_(pid),
      uid_(uid),
      packet_(std::make_unique<Packet>()) {}

Session::~Session() {
    alive_.reset();
    for (auto& [id, stream] : streams_)
        context_.conductor.close(stream);
    context_.conductor.owner_gone(id_);
}

SessionStatus Session::status() const {
    SessionStatus status{pid_, uid_, program_, {}};
    for (const auto& [id, stream] : streams_)
        status.streams.push_back(id);
    return status;
}

bool Session::sent(const Result<void>& result) {
    if (!result) spdlog::warn("client {} detached: {}", pid_, result.error().message);
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

bool Session::reply_document(std::uint32_t request, std::initializer_list<std::span<const std::byte>> parts) {
    std::size_t bytes = 0;
    for (const auto& part : parts)
        bytes += part.size();
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
    return sent(send_struct(socket_.get(), message, {}, fd->get()));
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
    for (int handled = 0; handled < kMessagesAtOnce; ++handled) {
        std::string why;
        switch (receive(socket_.get(), *packet_, why)) {
            case Received::kNothing:
                return true;
            case Received::kClosed:
                return false;
            case Received::kMalformed:
                spdlog::warn("client {} detached: {}", pid_, why);
                return false;
            case Received::kMessage:
                if (!handle(*packet_)) return false;
        }
    }
    return true;
}

bool Session::handle(Packet& packet) {
    const sl_message& head = packet.head();
    if (packet.fd && head.type != SL_MSG_ITEMS) {
        spdlog::warn("client {} detached: it sent a descriptor that nobody asked for", pid_);
        return false;
    }
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
            return reply_error(head.request,
                               {Status::kProtocol, "unknown message " + std::to_string(head.type), 0});
    }
}

bool Session::on_hello(const Packet& packet) {
    const auto* hello = packet.as<sl_msg_hello>();
    const sl_message& head = packet.head();
    if (hello == nullptr) return reply_error(head.request, {Status::kProtocol, "HELLO is too short", 0});
    if (head.major != SL_SHM_MAJOR) {
        const char* side = head.major < SL_SHM_MAJOR ? "the client is too old" : "the daemon is too old";
        reply_error(head.request, {Status::kVersion,
                                   std::string(side) + ": protocol " + std::to_string(head.major) +
                                       " against " + std::to_string(SL_SHM_MAJOR),
                                   0});
        return false;
    }
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
                   .pid = pid_,
                   .uid = uid_,
                   .socket = std::move(socket_),
                   .pidfd = std::move(pidfd_)};
    return false;
}

bool Session::on_close(const Packet& packet) {
    const auto* close = packet.as<sl_msg_stream>();
    std::uint32_t request = packet.head().request;
    auto found = close != nullptr ? streams_.find(close->stream_id) : streams_.end();
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
    auto found = report != nullptr ? streams_.find(report->stream_id) : streams_.end();
    if (found == streams_.end()) return reply_error(request, {Status::kInvalidArgument, "no such stream", 0});
    return reply_json(request, report_json(*found->second));
}

}  // namespace sl
