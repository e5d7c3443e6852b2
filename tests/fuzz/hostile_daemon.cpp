#include "tests/fuzz/hostile_daemon.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "shm/layout.h"

namespace sl {

namespace {

constexpr std::uint64_t kSlots = 2;
constexpr std::uint64_t kSlotBytes = 4096;
constexpr std::uint64_t kRing = 8;
constexpr std::uint64_t kBatchesBytes = 4 * SL_SHM_PAGE + kSlots * kSlotBytes;
constexpr std::uint64_t kStream = 5;

// A stream of three rows with "image" uint8 [3, 4] and "label" int64 [3], as a daemon would make it.
sl_shm_batch_header good_header() {
    sl_shm_batch_header header{};
    header.magic = SL_SHM_MAGIC;
    header.major = SL_SHM_MAJOR;
    header.minor = SL_SHM_MINOR;
    header.header_bytes = sizeof header;
    header.segment_bytes = kBatchesBytes;
    header.stream_id = kStream;
    header.slot_count = kSlots;
    header.ring_capacity = kRing;
    header.batch_size = 3;
    header.tensor_count = 2;
    header.slot_bytes = kSlotBytes;
    header.ring_offset = 3 * SL_SHM_PAGE;
    header.words_offset = header.ring_offset + kRing * sizeof(sl_shm_descriptor);
    header.info_offset = header.words_offset + kSlots * sizeof(std::uint64_t);
    header.slots_offset = 4 * SL_SHM_PAGE;
    header.batches_per_epoch = 2;
    header.epochs = 1;
    header.samples = 6;
    header.global_batch = 3;
    header.ready = SL_SHM_READY;
    header.tensors[0] = {.name = "image", .dtype = SL_SHM_UINT8, .ndim = 2, .shape = {3, 4}, .bytes = 12};
    header.tensors[1] = {
        .name = "label", .dtype = SL_SHM_INT64, .ndim = 1, .shape = {3}, .offset = 256, .bytes = 24};
    return header;
}

sl_shm_item_layout good_layout() {
    sl_shm_item_layout layout{};
    layout.fields = 1;
    layout.slot_bytes = 256;
    layout.field[0] = {.offset = SL_SHM_FIELD_ALIGN, .bytes = 64};
    layout.slots_offset = 4 * SL_SHM_PAGE;
    layout.batch_bytes = kSlotBytes;
    layout.batch_slots = kSlots;
    layout.rows = 3;
    layout.in_place = 1;
    return layout;
}

template <class T>
void append(std::vector<std::byte>& bytes, std::size_t at, const T& value) {
    std::memcpy(bytes.data() + at, &value, sizeof value);
}

}  // namespace

HostileDaemon::HostileDaemon(std::string path, FuzzedDataProvider& input)
    : path_(std::move(path)), input_(input), listener_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    ::unlink(path_.c_str());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.c_str(), path_.size());
    if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(listener_.get(), 4) != 0) {
        std::abort();
    }
    thread_ = std::thread([this] { serve(); });
}

HostileDaemon::~HostileDaemon() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
    ::unlink(path_.c_str());
}

void HostileDaemon::serve() {
    auto packet = std::make_unique<Packet>();
    while (true) {
        UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!socket) return;
        while (true) {
            const ssize_t got = ::recv(socket.get(), packet->data, sizeof packet->data, 0);
            if (got < static_cast<ssize_t>(sizeof(sl_message))) break;
            if (input_.remaining_bytes() == 0) break;  // it hangs up
            if (!answer(socket.get(), packet->head())) break;
        }
    }
}

// False: it hangs up, for the client would wait for a better answer.
bool HostileDaemon::answer(int socket, const sl_message& head) {
    const bool properly = input_.ConsumeIntegralInRange(0, 3) != 0;
    for (int more = input_.ConsumeIntegralInRange(0, 3); more > 0 && !properly; --more)
        say_something(socket, head.request);
    if (!properly) return false;
    if (head.type == SL_MSG_HELLO) {
        auto reply = make_message<sl_msg_hello_reply>(SL_MSG_HELLO_REPLY, head.request);
        reply.boot_id = 1;
        std::memset(reply.version, input_.ConsumeBool() ? 'v' : 0, sizeof reply.version);
        static_cast<void>(send_struct(socket, reply));
    } else if (head.type == SL_MSG_OPEN) {
        for (const std::uint32_t kind :
             {SL_SEGMENT_BATCHES, SL_SEGMENT_RETURNS, SL_SEGMENT_WAKE, SL_SEGMENT_EVENT}) {
            send_segment(socket, head.request, kind);
        }
        auto reply = make_message<sl_msg_open_reply>(SL_MSG_OPEN_REPLY, head.request);
        reply.stream_id = kStream;
        static_cast<void>(send_struct(socket, reply));
    } else if (head.type == SL_MSG_GUEST) {
        send_segment(socket, head.request, SL_SEGMENT_CHANNEL);
        send_segment(socket, head.request, SL_SEGMENT_WAKE);
        send_layout(socket, head.request);
        send_segment(socket, head.request, SL_SEGMENT_ROWS);
        send_segment(socket, head.request, SL_SEGMENT_SAMPLES);
    } else {
        say_something(socket, head.request);
        return false;
    }
    return true;
}

void HostileDaemon::say_something(int socket, std::uint32_t request) {
    const auto kind = input_.ConsumeIntegralInRange(0, 4);
    if (kind == 0) return send_segment(socket, request, input_.ConsumeIntegralInRange(0U, 9U));
    if (kind == 1) return send_layout(socket, request);
    const auto body = input_.ConsumeBytes<std::byte>(input_.ConsumeIntegralInRange<std::size_t>(0, 700));
    UniqueFd file;
    if (kind == 2) file = spoiled(std::as_bytes(std::span("{}")), 2 + body.size());
    sl_message head{};
    head.type = input_.ConsumeIntegralInRange(0U, 18U);
    head.request = input_.ConsumeBool() ? request : input_.ConsumeIntegral<std::uint32_t>();
    static_cast<void>(send_message(socket, &head, sizeof head, body, file.get()));
}

// Some bytes of it changed, and its seals not always what they should be.
UniqueFd HostileDaemon::spoiled(std::span<const std::byte> bytes, std::size_t size) {
    UniqueFd fd(::memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(size)) != 0) std::abort();
    std::vector<std::byte> content(bytes.begin(), bytes.end());
    const int changes = input_.ConsumeIntegralInRange(-2, 3);
    for (int i = 0; i < changes && !content.empty(); ++i) {
        const auto at = input_.ConsumeIntegralInRange<std::size_t>(0, content.size() - 1);
        const auto word = input_.ConsumeBytes<std::byte>(input_.ConsumeIntegralInRange<std::size_t>(1, 8));
        std::ranges::copy_n(word.begin(),
                            static_cast<std::ptrdiff_t>(std::min(word.size(), content.size() - at)),
                            content.begin() + static_cast<std::ptrdiff_t>(at));
    }
    if (::pwrite(fd.get(), content.data(), std::min(content.size(), size), 0) < 0) std::abort();
    const int seals = input_.ConsumeIntegralInRange(0, 9) == 0 ? 0 : F_SEAL_SHRINK | F_SEAL_GROW;
    if (::fcntl(fd.get(), F_ADD_SEALS, seals) != 0) std::abort();
    return fd;
}

UniqueFd HostileDaemon::batches() {
    std::vector<std::byte> bytes(4 * SL_SHM_PAGE);
    append(bytes, 0, good_header());
    sl_shm_batch_live live{};
    live.published = input_.ConsumeIntegralInRange(0U, 4U);
    append(bytes, SL_SHM_LIVE_OFFSET, live);
    for (std::uint32_t i = 0; i < 4; ++i) {
        sl_shm_descriptor descriptor{};
        descriptor.kind = input_.ConsumeIntegralInRange(0U, 5U);
        descriptor.slot = input_.ConsumeIntegralInRange(0U, 3U);
        descriptor.generation = 1;
        descriptor.count = input_.ConsumeIntegralInRange(0U, 4U);
        append(bytes, 3 * SL_SHM_PAGE + i * sizeof descriptor, descriptor);
    }
    return spoiled(bytes, kBatchesBytes);
}

void HostileDaemon::send_segment(int socket, std::uint32_t request, std::uint32_t kind) {
    auto message = make_message<sl_msg_segment>(SL_MSG_SEGMENT, request);
    message.stream_id = kStream;
    message.kind = kind;
    UniqueFd fd;
    if (kind == SL_SEGMENT_WAKE) {
        fd.reset(::eventfd(0, EFD_CLOEXEC));
    } else if (kind == SL_SEGMENT_EVENT) {
        int ends[2];
        if (::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
        fd.reset(ends[0]);
        ::close(ends[1]);
    } else if (kind == SL_SEGMENT_BATCHES || kind == SL_SEGMENT_ROWS) {
        fd = batches();
        message.bytes = kBatchesBytes;
    } else if (kind == SL_SEGMENT_CHANNEL) {
        sl_shm_worker_channel channel{};
        channel.job_tail = input_.ConsumeIntegralInRange(0U, 3U);
        channel.messages = 1;
        for (std::uint32_t i = 0; i < 2; ++i) {
            channel.jobs[i].stream_id = kStream;
            channel.jobs[i].output_offset = input_.ConsumeIntegralInRange(0U, 3U) * 256U;
            channel.jobs[i].place = {.kind = input_.ConsumeIntegralInRange(0U, 3U),
                                     .slot = input_.ConsumeIntegralInRange(0U, 3U),
                                     .row = input_.ConsumeIntegralInRange(0U, 4U),
                                     .reserved = 0};
        }
        fd = spoiled(std::as_bytes(std::span(&channel, 1)), 4096);
        message.bytes = 4096;
    } else {
        fd = spoiled({}, SL_SHM_PAGE);
        message.bytes = SL_SHM_PAGE;
    }
    if (input_.ConsumeIntegralInRange(0, 15) == 0) message.bytes = input_.ConsumeIntegral<std::uint64_t>();
    if (input_.ConsumeIntegralInRange(0, 15) == 0) fd.reset();
    static_cast<void>(send_struct(socket, message, {}, fd.get()));
}

void HostileDaemon::send_layout(int socket, std::uint32_t request) {
    auto message = make_message<sl_msg_pipeline>(SL_MSG_PIPELINE, request);
    message.stream_id = kStream;
    sl_shm_item_layout layout = good_layout();
    message.pipeline_bytes = sizeof layout;
    std::byte bytes[sizeof layout];
    std::memcpy(bytes, &layout, sizeof layout);
    for (int changes = input_.ConsumeIntegralInRange(-2, 2); changes > 0; --changes) {
        const auto at = input_.ConsumeIntegralInRange<std::size_t>(0, sizeof layout - 8);
        const auto word = input_.ConsumeIntegral<std::uint64_t>();
        std::memcpy(bytes + at, &word, sizeof word);
    }
    static_cast<void>(send_struct(socket, message, bytes));
}

}  // namespace sl
