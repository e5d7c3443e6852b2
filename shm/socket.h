// Control messages over SOCK_SEQPACKET: one packet, one message, at most one descriptor.
//
// A received packet is copied into the caller's buffer and its length is checked before anybody looks at it;
// the version is checked by whoever answers a HELLO. Descriptors that nobody asked for are not taken.
// Thread-safe per socket in the kernel's sense: packets never mix.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "shm/error.h"
#include "shm/fd.h"
#include "shm/messages.h"

namespace sl {

struct Packet {
    alignas(16) std::byte data[SL_MESSAGE_MAX];
    std::uint32_t length = 0;
    UniqueFd fd;
    bool carried = false;  // it came with descriptors that nobody took

    [[nodiscard]] const sl_message& head() const { return *reinterpret_cast<const sl_message*>(data); }
    // The body as a message struct, or nullptr if the packet is too short for it.
    template <class Message>
    [[nodiscard]] const Message* as() const {
        return length >= sizeof(Message) ? reinterpret_cast<const Message*>(data) : nullptr;
    }
    // What follows the struct.
    template <class Message>
    [[nodiscard]] std::span<const std::byte> tail() const {
        return {data + sizeof(Message), length - sizeof(Message)};
    }
};

enum class Received { kMessage, kNothing, kClosed, kMalformed };

// Whether a packet may bring a descriptor. From strangers none is taken that is not asked for: to close one
// of a file system of theirs asks that file system, and waits for its answer beyond any signal.
enum class Carry { kNothing, kDescriptor };

// Never blocks. kMalformed: a packet that is no message (too short, too long, cut descriptors); its reason in
// `why`. With kNothing the kernel drops what came along, and `carried` says so.
Received receive(int socket, Packet& packet, std::string& why, Carry carry);

// Sends head + body [+ tail] [+ descriptor] without blocking. Fills in length and version. EAGAIN is an
// error: a peer that lets its socket fill up does not read its replies.
Result<void> send_message(int socket, sl_message* message, std::size_t bytes,
                          std::span<const std::byte> tail = {}, int fd = -1);

template <class Message>
Result<void> send_struct(int socket, Message& message, std::span<const std::byte> tail = {}, int fd = -1) {
    return send_message(socket, &message.head, sizeof(Message), tail, fd);
}

template <class Message>
Message make_message(std::uint32_t type, std::uint32_t request) {
    Message message{};
    message.head.type = type;
    message.head.request = request;
    return message;
}

// Copies text into a fixed field, cut to fit and zero-terminated.
void copy_text(std::span<char> field, std::string_view text);

}  // namespace sl
