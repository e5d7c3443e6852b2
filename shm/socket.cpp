#include "shm/socket.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace sl {

namespace {

// Takes over every descriptor that came along; returns how many.
int adopt_descriptors(msghdr& header, UniqueFd& first) {
    int count = 0;
    for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
        std::size_t fds = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < fds; ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof fd);
            UniqueFd owned(fd);
            if (count++ == 0) first = std::move(owned);
        }
    }
    return count;
}

}  // namespace

Received receive(int socket, Packet& packet, std::string& why, Carry carry) {
    packet.fd.reset();
    packet.length = 0;
    packet.carried = false;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 4)];
    iovec vector{packet.data, sizeof packet.data};
    msghdr header{};
    header.msg_iov = &vector;
    header.msg_iovlen = 1;
    if (carry == Carry::kDescriptor) {
        header.msg_control = control;
        header.msg_controllen = sizeof control;
    }
    ssize_t got = 0;
    do {
        got = ::recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK) return Received::kNothing;
        return Received::kClosed;
    }
    int fds = adopt_descriptors(header, packet.fd);  // first: an empty packet may carry some too
    if (got == 0) {
        packet.fd.reset();
        return Received::kClosed;
    }
    packet.length = static_cast<std::uint32_t>(got);
    packet.carried = (header.msg_flags & MSG_CTRUNC) != 0;
    if (packet.carried && carry == Carry::kDescriptor) {
        packet.fd.reset();
        why = "descriptors of a message were cut off (too many open files?)";
        return Received::kMalformed;
    }
    if ((header.msg_flags & MSG_TRUNC) != 0 || fds > 1 || packet.length < sizeof(sl_message) ||
        packet.head().length != packet.length) {
        packet.fd.reset();
        why = "a packet that is no message (length " + std::to_string(packet.length) + ")";
        return Received::kMalformed;
    }
    return Received::kMessage;
}

Result<void> send_message(int socket, sl_message* message, std::size_t bytes, std::span<const std::byte> tail,
                          int fd) {
    if (bytes + tail.size() > SL_MESSAGE_MAX) return fail(Status::kProtocol, "message too long");
    message->length = static_cast<std::uint32_t>(bytes + tail.size());
    message->major = SL_SHM_MAJOR;
    message->minor = SL_SHM_MINOR;
    iovec vector[2] = {{message, bytes}, {const_cast<std::byte*>(tail.data()), tail.size()}};
    msghdr header{};
    header.msg_iov = vector;
    header.msg_iovlen = tail.empty() ? 1 : 2;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    if (fd >= 0) {
        header.msg_control = control;
        header.msg_controllen = sizeof control;
        cmsghdr* part = CMSG_FIRSTHDR(&header);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(sizeof(int));
        std::memcpy(CMSG_DATA(part), &fd, sizeof fd);
    }
    ssize_t sent = 0;
    do {
        sent = ::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0) return std::unexpected(os_error(Status::kDisconnected, "cannot send a message", errno));
    return {};
}

void copy_text(std::span<char> field, std::string_view text) {
    std::size_t length = std::min(text.size(), field.size() - 1);
    std::memcpy(field.data(), text.data(), length);
    std::memset(field.data() + length, 0, field.size() - length);
}

}  // namespace sl
