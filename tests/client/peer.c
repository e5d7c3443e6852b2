/* See peer.h. */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cmocka_c.h"
#include "shm/messages.h"

static void send_with(int socket, void* message, size_t bytes, int fd) {
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec part = {message, bytes};
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        packet.msg_control = &control;
        packet.msg_controllen = sizeof control;
        struct cmsghdr* head = CMSG_FIRSTHDR(&packet);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(head), &fd, sizeof fd);
    }
    /* A client that has hung up is the client's business. */
    (void)!sendmsg(socket, &packet, MSG_NOSIGNAL);
}

static sl_message head_of(const peer* one, uint32_t type, size_t bytes, uint32_t request) {
    return (sl_message){.length = (uint32_t)bytes, .major = one->major, .type = type, .request = request};
}

static void answer_open(peer* one, int socket, uint32_t request) {
    if (one->refuse != 0) {
        sl_msg_error no = {.status = one->refuse, .message = "the peer says no"};
        no.head = head_of(one, SL_MSG_ERROR, sizeof no, request);
        send_with(socket, &no, sizeof no, -1);
        return;
    }
    const segment* memory = one->opens > 1 && one->second != NULL ? one->second : one->memory;
    const int fds[] = {memory->batches_fd, memory->returns_fd, memory->wake_fd, memory->event_fd};
    for (uint32_t kind = SL_SEGMENT_BATCHES; kind <= SL_SEGMENT_EVENT; kind++) {
        if ((int)kind == one->leave_out) continue;
        sl_msg_segment part = {.stream_id = 5, .kind = kind, .bytes = memory->bytes};
        part.head = head_of(one, SL_MSG_SEGMENT, sizeof part, request);
        send_with(socket, &part, sizeof part, fds[kind - SL_SEGMENT_BATCHES]);
    }
    sl_msg_open_reply reply = {.stream_id = 5};
    reply.head = head_of(one, SL_MSG_OPEN_REPLY, sizeof reply, request);
    send_with(socket, &reply, sizeof reply, -1);
}

static void note_open(peer* one, const sl_message* head) {
    const sl_msg_open* open = (const sl_msg_open*)head;
    one->opens++;
    snprintf(one->state, sizeof one->state, "%.*s", (int)open->state_bytes,
             (const char*)(open + 1) + open->spec_bytes);
}

static void answer(peer* one, int socket, const sl_message* head) {
    if ((int)head->type == one->hangs_up_at) shutdown(socket, SHUT_RDWR);
    if (head->type == SL_MSG_HELLO) {
        sl_msg_hello_reply reply = {.boot_id = 1};
        snprintf(reply.version, sizeof reply.version, "%s", one->version == NULL ? "test" : one->version);
        reply.head = head_of(one, SL_MSG_HELLO_REPLY, sizeof reply, head->request);
        send_with(socket, &reply, sizeof reply, -1);
    } else if (head->type == SL_MSG_OPEN) {
        note_open(one, head);
        answer_open(one, socket, head->request);
    } else if (head->type == SL_MSG_CLOSE) {
        one->closes++;
        sl_msg_stream reply = {.stream_id = 5};
        reply.head = head_of(one, SL_MSG_CLOSE_REPLY, sizeof reply, head->request);
        send_with(socket, &reply, sizeof reply, -1);
    }
}

static void serve_one(peer* one, int socket) {
    __atomic_store_n(&one->connection, socket, __ATOMIC_RELEASE);
    static _Thread_local union {
        sl_message head;
        char bytes[SL_MESSAGE_MAX];
    } packet;
    while (recv(socket, &packet, sizeof packet, 0) > 0) {
        if (one->mute_from == 0 || (int)packet.head.type < one->mute_from) answer(one, socket, &packet.head);
    }
    close(socket);
}

static void* serve(void* argument) {
    peer* one = argument;
    int left = one->clients > 0 ? one->clients : 1;
    for (int socket; left-- > 0 && (socket = accept(one->listener, NULL, NULL)) >= 0;)
        serve_one(one, socket);
    return NULL;
}

void peer_listen(peer* one) {
    if (one->major == 0) one->major = SL_SHM_MAJOR;
    one->closes = 0;
    one->opens = 0;
    one->connection = -1;
    snprintf(one->path, sizeof one->path, "sl-peer-%d.sock", (int)getpid());
    unlink(one->path);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, one->path);
    one->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(one->listener, (struct sockaddr*)&address, sizeof address), 0);
    assert_int_equal(listen(one->listener, 4), 0);
}

void peer_serve(peer* one, const segment* memory) {
    one->memory = memory;
    assert_int_equal(pthread_create(&one->thread, NULL, serve, one), 0);
}

void peer_start(peer* one, const segment* memory) {
    peer_listen(one);
    peer_serve(one, memory);
}

void peer_hang_up(peer* one) {
    shutdown(__atomic_load_n(&one->connection, __ATOMIC_ACQUIRE), SHUT_RDWR);
}

void peer_stop(peer* one) {
    if (one->clients > 0) shutdown(one->listener, SHUT_RDWR);
    pthread_join(one->thread, NULL);
    close(one->listener);
    unlink(one->path);
}
