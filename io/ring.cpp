// See ring.h.
#include "io/ring.h"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace sl {

namespace {

constexpr unsigned kFewestEntries = 32;
// The kernel takes at most 1 GiB in one registered buffer.
constexpr std::uint64_t kBufferBytes = std::uint64_t{1} << 30;

bool is_refusal(int error) {
    return error == EPERM || error == EACCES || error == ENOSYS;
}

}  // namespace

Result<std::unique_ptr<Ring>> Ring::create(unsigned entries, std::span<std::byte> memory, int event_fd) {
    std::unique_ptr<Ring> ring(new Ring);
    if (int error = ring->set_up(entries)) {
        return std::unexpected(os_error(Status::kUnsupported, "cannot create an io_uring", error));
    }
    if (int error = ring->check_operations()) {
        return std::unexpected(os_error(Status::kUnsupported, "io_uring lacks open or read", error));
    }
    if (int error = -::io_uring_register_eventfd(ring->get(), event_fd)) {
        return std::unexpected(os_error(Status::kUnsupported, "cannot tie an eventfd to io_uring", error));
    }
    ring->register_memory(memory);
    return ring;
}

Ring::~Ring() {
    if (made_) ::io_uring_queue_exit(&ring_);
}

int Ring::set_up(unsigned entries) {
    asked_ = std::max(entries, 2U);
    const unsigned fewest = asked_ < kFewestEntries ? 2 : kFewestEntries;
    for (unsigned now = asked_;; now = std::max(now / 2, fewest)) {
        int error = -::io_uring_queue_init(now, &ring_, 0);
        made_ = error == 0;
        if (made_ || is_refusal(error) || now == fewest) return error;
    }
}

int Ring::check_operations() {
    io_uring_probe* probe = ::io_uring_get_probe_ring(&ring_);
    if (probe == nullptr) return EOPNOTSUPP;
    bool all = true;
    for (int operation : {IORING_OP_OPENAT, IORING_OP_READ, IORING_OP_READ_FIXED, IORING_OP_TIMEOUT}) {
        all = all && ::io_uring_opcode_supported(probe, operation) != 0;
    }
    ::io_uring_free_probe(probe);
    return all ? 0 : EOPNOTSUPP;
}

void Ring::register_memory(std::span<std::byte> memory) {
    if (memory.empty()) return;
    std::vector<iovec> buffers;
    for (std::uint64_t at = 0; at < memory.size(); at += kBufferBytes) {
        buffers.push_back({memory.data() + at, std::min(kBufferBytes, memory.size() - at)});
    }
    registration_error_ = -::io_uring_register_buffers(&ring_, buffers.data(), buffers.size());
    if (registration_error_ == 0) registered_ = memory;
}

FixedPiece Ring::fixed_piece(const std::byte* destination, std::uint64_t length) const {
    // Compared as numbers: pointers of different objects have no order.
    auto first = reinterpret_cast<std::uintptr_t>(registered_.data());
    auto wanted = reinterpret_cast<std::uintptr_t>(destination);
    if (registered_.empty() || wanted < first || wanted - first >= registered_.size()) return {-1, length};
    std::uint64_t at = wanted - first;
    if (length > registered_.size() - at) return {-1, length};
    return {static_cast<int>(at / kBufferBytes), std::min(length, kBufferBytes - at % kBufferBytes)};
}

std::string Ring::description() const {
    std::string text = "uring: " + std::to_string(ring_.sq.ring_entries) + " entries";
    if (ring_.sq.ring_entries < asked_) text += " (" + std::to_string(asked_) + " asked for)";
    if (registration_error_ != 0) {
        text += ", memory not registered (";
        text += std::strerror(registration_error_);
        text += registration_error_ == ENOMEM ? ": raise the limit on locked memory, ulimit -l)" : ")";
        return text;
    }
    return text + ", " + std::to_string(registered_.size()) + " bytes of registered memory";
}

}  // namespace sl
