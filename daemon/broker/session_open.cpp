// How a session opens a stream: what the client asks for, the scan or the order that comes first, and the
// segments it is sent. Thread safety and failures as in session.h.
#include <poll.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "daemon/broker/session.h"
#include "shm/fault.h"

namespace sl {

namespace {

// Streams a client may have, those that are being opened included.
constexpr std::size_t kMaxStreams = 64;

}  // namespace

// A relative path is meant from where the client stands, not from where the daemon was started.
// Another user's process may not show it to the daemon.
Result<std::string> Session::absolute_path(const std::string& path) const {
    if (path.starts_with('/')) return path;
    std::error_code error;
    auto folder = std::filesystem::read_symlink("/proc/" + std::to_string(peer_.pid) + "/cwd", error);
    pollfd ended{pidfd_.get(), POLLIN, 0};
    // A process that has ended may have left its number to another one.
    if (error || !folder.is_absolute() || ::poll(&ended, 1, 0) != 0) {
        return fail(Status::kDenied,
                    "the path \"" + path +
                        "\" is relative, and the daemon cannot see the folder that process " +
                        std::to_string(peer_.pid) + " of user " + std::to_string(uid()) +
                        " stands in: give an absolute path");
    }
    return (folder / path).lexically_normal().string();
}

// Makes the spec's paths absolute. What a mix's folder meets with says which part that is.
Result<ScanQueue::Reaches> Session::reaches_of(Spec& spec) const {
    ScanQueue::Reaches reaches;
    for (FolderSpec& part : spec.parts) {
        auto absolute = absolute_path(part.path);
        auto reach = absolute ? context_.rights.reach(peer_.user, *absolute)
                              : Result<std::shared_ptr<const Reach>>(std::unexpected(absolute.error()));
        if (!reach) {
            if (spec.kind != DatasetKind::kMix) return std::unexpected(std::move(reach).error());
            return std::unexpected(
                std::move(reach).error().because("dataset.parts[" + std::to_string(reaches.size()) + "]"));
        }
        part.path = *absolute;
        reaches.push_back(std::move(*reach));
    }
    return reaches;
}

std::optional<Error> Session::too_many_streams() const {
    if (streams() >= kMaxStreams) {
        return Error{Status::kBudget, "a client may have at most " + std::to_string(kMaxStreams) + " streams",
                     0};
    }
    const std::uint64_t most = context_.rights.limits(uid()).streams;
    if (most == 0) return std::nullopt;
    // Who closes streams and keeps their memory keeps descriptors of the daemon's, too.
    KeptMemory& kept = context_.conductor.kept_memory();
    if (context_.streams() + kept.sum(uid()).count >= most) kept.look();
    if (context_.streams() + kept.sum(uid()).count >= most) return beyond_limit(uid(), most, "streams");
    return std::nullopt;
}

// Not answered: what is wrong with it is told to who opens a stream with it.
bool Session::on_items(const Packet& packet) {
    const auto* items = packet.as<sl_msg_items>();
    if (items == nullptr) {
        items_.refuse({Status::kProtocol, "ITEMS is too short", 0});
        return true;
    }
    // What is put together here is examined once it is opened.
    const auto reserve = [this](std::uint64_t bytes) {
        return context_.conductor.reserve_order(bytes, {uid(), most_bytes()});
    };
    if (items_.add(*items, packet.tail<sl_msg_items>(), reserve)) return true;
    return detach(packet, {Status::kProtocol, "a second ITEMS without an OPEN", 0});
}

bool Session::on_open(const Packet& packet) {
    const auto* open = packet.as<sl_msg_open>();
    std::uint32_t request = packet.head().request;
    auto order = items_.take();
    if (open == nullptr ||
        std::uint64_t{open->spec_bytes} + open->state_bytes != packet.tail<sl_msg_open>().size()) {
        return reply_error(request, {Status::kProtocol, "OPEN has a wrong length", 0});
    }
    if (const auto error = too_many_streams()) return reply_error(request, *error);
    const auto* text = reinterpret_cast<const char*>(packet.tail<sl_msg_open>().data());
    auto spec = parse_spec({text, open->spec_bytes});
    if (!spec) return reply_error(request, spec.error());
    Stream::Wish wish{.slots = open->slots, .resume = {}};
    if ((open->flags & SL_OPEN_CHANGED_DATASET) != 0) wish.on_change = OnChange::kAllow;
    if (open->state_bytes > 0) {
        auto position = parse_position({text + open->spec_bytes, open->state_bytes});
        if (!position) return reply_error(request, position.error());
        wish.resume = *position;
    }
    if ((open->flags & SL_OPEN_SAMPLES) != 0) {
        // Sample level: every sample a batch of its own, in the order they finish.
        spec->batch.size = 1;
        spec->order_policy = OrderPolicy::kReady;
    }
    if ((spec->kind == DatasetKind::kItems) != order.has_value()) {
        return reply_error(request,
                           {Status::kProtocol,
                            order ? "items were given for a dataset that is not of kind items"
                                  : "dataset.kind is \"items\", but no items were given with the spec",
                            0});
    }
    if (order) return open_items(request, wish, *spec, std::move(*order));
    auto reaches = reaches_of(*spec);
    if (!reaches) return reply_error(request, reaches.error());
    SL_FAULT(daemon_open_heard);
    // A scan may take long: the reply comes when it is done, if the session is still there.
    ++opening_;
    context_.scans.scan(*spec, uid(), std::move(*reaches), alive_,
                        [this, request, wish](ScanQueue::Found found) {
                            --opening_;
                            SL_FAULT(daemon_scan_ended);
                            if (found) {
                                start_stream(request, wish, std::move(*found));
                            } else if (!reply_error(request, found.error())) {
                                hang_up();
                            }
                        });
    return true;
}

bool Session::open_items(std::uint32_t request, const Stream::Wish& wish, const Spec& spec,
                         Result<std::shared_ptr<const ItemOrder>> order) {
    if (!order) return reply_error(request, order.error());
    if ((*order)->size() != spec.items.count) {
        return reply_error(request, {Status::kProtocol,
                                     "dataset.count is " + std::to_string(spec.items.count) + ", and " +
                                         std::to_string((*order)->size()) + " items were given",
                                     0});
    }
    auto dataset = Dataset::of_items(spec.items.name, std::move(*order));
    start_stream(request, wish, {std::move(dataset), spec});
    return true;
}

void Session::start_stream(std::uint32_t request, const Stream::Wish& wish, ScanQueue::Scanned found) {
    ++opening_;
    context_.conductor.open(std::make_shared<Opening>(
        Opening{.spec = std::move(found.spec),
                .dataset = std::move(found.dataset),
                .wish = wish,
                .owner = {id_, uid(), most_bytes()},
                .asker = alive_,
                .done = [this, request](Result<Stream*> stream) {
                    --opening_;
                    const bool answered =
                        stream ? hand_over(request, **stream) : reply_error(request, stream.error());
                    if (!answered) hang_up();
                }}));
}

bool Session::hand_over(std::uint32_t request, Stream& stream) {
    SL_FAULT(daemon_stream_made);
    if (!reads(kMostUnread)) {
        context_.conductor.close(&stream);
        return false;
    }
    if (auto attached = send_segments(request, stream); !attached) {
        context_.conductor.close(&stream);
        return reply_error(request, attached.error());
    }
    streams_[stream.id()] = &stream;
    auto reply = make_message<sl_msg_open_reply>(SL_MSG_OPEN_REPLY, request);
    reply.stream_id = stream.id();
    const bool answered = sent(send_struct(socket_.get(), reply));
    SL_FAULT(daemon_open_replied);
    return answered;
}

Result<void> Session::send_segments(std::uint32_t request, Stream& stream) {
    const BatchRing& ring = stream.ring();
    auto batches = ring.batches().read_only_fd();
    if (!batches) return std::unexpected(batches.error());
    struct {
        std::uint32_t kind;
        std::uint64_t bytes;
        int fd;
    } const segments[] = {{SL_SEGMENT_BATCHES, ring.batches().size(), batches->get()},
                          {SL_SEGMENT_RETURNS, ring.returns().size(), ring.returns().writable_fd()},
                          {SL_SEGMENT_WAKE, 0, ring.wake_fd()},
                          {SL_SEGMENT_EVENT, 0, ring.event_fd()}};
    for (const auto& segment : segments) {
        auto message = make_message<sl_msg_segment>(SL_MSG_SEGMENT, request);
        message.stream_id = stream.id();
        message.kind = segment.kind;
        message.bytes = segment.bytes;
        if (auto sent = send_struct(socket_.get(), message, {}, segment.fd); !sent) return sent;
        SL_FAULT(daemon_segment_sent);
    }
    SL_FAULT(daemon_event_sent);
    return {};
}

}  // namespace sl
