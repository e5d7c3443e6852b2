/* Packets over the daemon's Unix socket (shm/messages.h): connect, send, receive, each up to a deadline.
 *
 * Called by client.c and private.c, which see to it that one thread at a time receives. Sockets never block
 * in a call, only in poll. A packet is copied, its length and type are checked, and only then its body is
 * read. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "internal.h"
#include "shm/fault.h"

/* 0, or -ETIMEDOUT. */
static int await(int fd, short events, sl_time deadline) {
    for (;;) {
        struct pollfd entry = {.fd = fd, .events = events};
        int count = poll(&entry, 1, sl_poll_ms(deadline));
        if (count > 0) return 0;
        if (count < 0 && errno != EINTR) return -errno;
        if (deadline != SL_NEVER && sl_now() >= deadline) return -ETIMEDOUT;
    }
}

int sl_socket_connect(const char* name, size_t name_bytes, sl_time deadline, int* fd) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (name_bytes > sizeof address.sun_path) return -ENAMETOOLONG;
    memcpy(address.sun_path, name, name_bytes);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + name_bytes);
    int made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made < 0) return -errno;
    while (connect(made, (const struct sockaddr*)&address, bytes) != 0) {
        int error = errno;
        if (error == EINTR) continue;
        /* EAGAIN: the daemon's backlog is full. Unix sockets give no event for that, so look again soon. */
        if (error != EAGAIN || sl_now() >= deadline) {
            close(made);
            return error == EAGAIN ? -ETIMEDOUT : -error;
        }
        poll(NULL, 0, 5);
    }
    *fd = made;
    SL_FAULT(client_connected);
    return 0;
}

/* Fault points, by what the packet is. */
static void sent(const sl_message* head) {
    if (head->type == SL_MSG_HELLO) SL_FAULT(client_hello_sent);
    if (head->type == SL_MSG_OPEN) SL_FAULT(client_open_sent);
    if (head->type == SL_MSG_CLOSE) SL_FAULT(client_close_sent);
    if (head->type == SL_MSG_GUEST) SL_FAULT(guest_attached);
    if (head->type == SL_MSG_MAPPED) SL_FAULT(guest_mapped_said);
}

static void received_one(const sl_message* head) {
    if (head->type == SL_MSG_HELLO_REPLY) SL_FAULT(client_hello_replied);
    if (head->type == SL_MSG_SEGMENT) SL_FAULT(client_segment_received);
    if (head->type == SL_MSG_OPEN_REPLY) SL_FAULT(client_open_replied);
    if (head->type == SL_MSG_CLOSE_REPLY) SL_FAULT(client_close_replied);
}

int sl_socket_send(int fd, const void* head, size_t bytes, const void* body, size_t body_bytes, int carried,
                   sl_time deadline) {
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {
        .head = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    struct iovec parts[2] = {{(void*)head, bytes}, {(void*)body, body_bytes}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = body_bytes > 0 ? 2 : 1};
    if (carried >= 0) {
        memcpy(CMSG_DATA(&control.head), &carried, sizeof carried);
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
    }
    for (;;) {
        if (sendmsg(fd, &message, MSG_NOSIGNAL) >= 0) {
            sent(head);
            return 0;
        }
        if (errno == EINTR) continue;
        if (errno != EAGAIN) return -errno;
        int error = await(fd, POLLOUT, deadline);
        if (error != 0) return error;
    }
}

static void take_descriptor(struct msghdr* message, sl_reply* reply) {
    for (struct cmsghdr* part = CMSG_FIRSTHDR(message); part != NULL; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS &&
            part->cmsg_len >= CMSG_LEN(sizeof(int))) {
            memcpy(&reply->fd, CMSG_DATA(part), sizeof(int));
        }
    }
}

static size_t least_length(uint32_t type) {
    switch (type) {
        case SL_MSG_HELLO_REPLY:
            return sizeof(sl_msg_hello_reply);
        case SL_MSG_ERROR:
            return sizeof(sl_msg_error);
        case SL_MSG_OPEN_REPLY:
            return sizeof(sl_msg_open_reply);
        case SL_MSG_SEGMENT:
            return sizeof(sl_msg_segment);
        case SL_MSG_CLOSE_REPLY:
        case SL_MSG_FORGET:
            return sizeof(sl_msg_stream);
        case SL_MSG_PIPELINE:
            return sizeof(sl_pipeline_packet);
        case SL_MSG_DOCUMENT:
            return sizeof(sl_msg_document);
        default:
            return sizeof(sl_message);
    }
}

static sl_status check_packet(const sl_reply* reply, size_t received, int flags, const char* where) {
    const sl_message* head = &reply->body.head;
    if ((flags & MSG_CTRUNC) != 0) {
        return sl_fail(SL_E_IO, EMFILE,
                       "a descriptor from %s was cut off (MSG_CTRUNC): this process has no free one", where);
    }
    if (received < sizeof *head || (flags & MSG_TRUNC) != 0 || head->length != received) {
        return sl_fail(SL_E_PROTOCOL, 0, "a packet of %zu bytes from %s has a wrong length", received, where);
    }
    if (head->major != SL_SHM_MAJOR) {
        return sl_fail(SL_E_VERSION, 0,
                       "%s is too %s: it speaks version %u.%u of the protocol, this library (%s) %u.%u", where,
                       head->major < SL_SHM_MAJOR ? "old" : "new", head->major, head->minor, sl_version(),
                       SL_SHM_MAJOR, SL_SHM_MINOR);
    }
    if (received < least_length(head->type)) {
        return sl_fail(SL_E_PROTOCOL, 0, "a packet of type %u from %s has only %zu bytes", head->type, where,
                       received);
    }
    return SL_OK;
}

sl_status sl_socket_receive(int fd, sl_reply* reply, const char* where, sl_time deadline) {
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {&reply->body, sizeof reply->body};
    for (;;) {
        /* Not sizeof control: its padding has room for a second descriptor, which nobody would close. */
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = &control,
                                 .msg_controllen = CMSG_LEN(sizeof(int))};
        memset(&reply->body, 0, sizeof reply->body);
        reply->fd = -1;
        ssize_t received = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
        if (received > 0) {
            take_descriptor(&message, reply);
            sl_status status = check_packet(reply, (size_t)received, message.msg_flags, where);
            if (status != SL_OK && reply->fd >= 0) close(reply->fd);
            received_one(&reply->body.head);
            return status;
        }
        if (received == 0) return sl_fail(SL_E_DISCONNECTED, 0, "%s has ended the connection", where);
        if (errno == EINTR) continue;
        if (errno != EAGAIN) return sl_fail(SL_E_DISCONNECTED, errno, "the connection to %s is lost", where);
        int error = await(fd, POLLIN, deadline);
        if (error == -ETIMEDOUT) return sl_fail(SL_TIMEOUT, 0, "%s has not answered in time", where);
        if (error != 0) return sl_fail(SL_E_IO, -error, "cannot wait for %s", where);
    }
}

bool sl_socket_readable(int fd) {
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    return poll(&entry, 1, 0) > 0;
}

bool sl_socket_lost(int fd) {
    struct pollfd entry = {.fd = fd, .events = POLLRDHUP};
    return poll(&entry, 1, 0) > 0;
}
