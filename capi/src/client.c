/* A connection: its handle, its greeting, and the pairs of request and reply.
 *
 * Any thread may ask; one request at a time is under way, the others wait up to their own deadlines. Only an
 * OPEN, which may take long, is waited for in turns with others (opening.c), and its answer goes to its
 * opening, whoever receives it. A reply that nobody waits for any more (its
 * asker ran out of time) is dropped here. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "stream.h"

sl_status sl_client_new(int fd, const char* where, sl_client** client) {
    sl_client* made = calloc(1, sizeof *made);
    if (made == NULL) {
        close(fd);
        return sl_fail(SL_E_NO_MEMORY, ENOMEM, "no memory for a connection");
    }
    made->pid = getpid();
    made->socket = fd;
    made->refs = 1;
    made->connection = 1;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&made->idle, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&made->lock, NULL);
    snprintf(made->where, sizeof made->where, "%s", where);
    *client = made;
    return SL_OK;
}

sl_client* sl_client_hold(sl_client* client) {
    __atomic_fetch_add(&client->refs, 1, __ATOMIC_RELAXED);
    return client;
}

void sl_client_drop(sl_client* client) {
    /* acq_rel: whoever frees has seen every use of the others. */
    if (__atomic_fetch_sub(&client->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
    sl_revival_end(&client->revival);
    close(client->socket);
    while (client->versions != NULL) {
        sl_version_text* next = client->versions->next;
        free(client->versions);
        client->versions = next;
    }
    pthread_cond_destroy(&client->idle);
    pthread_mutex_destroy(&client->lock);
    free(client);
}

/* Waits for its turn; false if the deadline came first. */
static bool become_busy(sl_client* client, sl_time deadline) {
    const struct timespec until = {deadline / 1000000000, deadline % 1000000000};
    int error = 0;
    pthread_mutex_lock(&client->lock);
    while (client->busy && error == 0) {
        error = deadline == SL_NEVER ? pthread_cond_wait(&client->idle, &client->lock)
                                     : pthread_cond_timedwait(&client->idle, &client->lock, &until);
    }
    bool mine = !client->busy;
    if (mine) client->busy = true;
    pthread_mutex_unlock(&client->lock);
    return mine;
}

sl_status sl_client_begin(sl_client* client, uint32_t connection, sl_time deadline) {
    if (!become_busy(client, deadline)) {
        return sl_fail(SL_TIMEOUT, 0, "another request to %s is still under way", client->where);
    }
    if (connection != 0 && connection != sl_connection(client)) {
        sl_client_end(client);
        return sl_fail(SL_E_DISCONNECTED, 0,
                       "the process that %s was has gone, and what it knew of the stream", client->where);
    }
    ++client->request;
    return SL_OK;
}

sl_status sl_client_send(sl_client* client, sl_message* head, size_t bytes, const void* body,
                         size_t body_bytes, int carried, sl_time deadline) {
    head->length = (uint32_t)(bytes + body_bytes);
    head->major = SL_SHM_MAJOR;
    head->minor = SL_SHM_MINOR;
    head->request = client->request;
    int error = sl_socket_send(client->socket, head, bytes, body, body_bytes, carried, deadline);
    if (error == 0) return SL_OK;
    if (error == -ETIMEDOUT) return sl_fail(SL_TIMEOUT, 0, "%s does not read its messages", client->where);
    return sl_fail(SL_E_DISCONNECTED, -error, "cannot send to %s", client->where);
}

void sl_client_end(sl_client* client) {
    pthread_mutex_lock(&client->lock);
    client->busy = false;
    pthread_cond_broadcast(&client->idle);
    pthread_mutex_unlock(&client->lock);
}

/* A stream that nobody has asked for any more must not hold memory in the daemon. */
void sl_client_abandon(sl_client* client, uint64_t stream_id) {
    sl_msg_stream message = {.head = {.length = sizeof message,
                                      .major = SL_SHM_MAJOR,
                                      .minor = SL_SHM_MINOR,
                                      .type = SL_MSG_CLOSE,
                                      .request = 0},
                             .stream_id = stream_id};
    (void)sl_socket_send(client->socket, &message, sizeof message, NULL, 0, -1, sl_now());
}

sl_status sl_client_fail_as_told(const sl_client* client, const sl_msg_error* error) {
    sl_status code = sl_is_error_code(error->status) ? (sl_status)error->status : SL_E_PROTOCOL;
    if (error->message[0] == '\0') {
        return sl_fail(code, error->os_errno, "%s says %s", client->where, sl_status_name(code));
    }
    /* The daemon's sentence already ends with its errno's text: keep the number, not a second text. */
    sl_shm_stream_error page = {.status = code, .offset = -1, .os_errno = error->os_errno};
    memcpy(page.message, error->message, sizeof page.message - 1);
    return sl_fail_stream(&page);
}

void sl_client_sort(sl_client* client, sl_reply* reply) {
    if (sl_opening_take(client, reply)) return;
    if (reply->body.head.type == SL_MSG_OPEN_REPLY) sl_client_abandon(client, reply->body.open.stream_id);
    if (reply->fd >= 0) close(reply->fd);
}

sl_status sl_client_receive(sl_client* client, sl_reply* reply, sl_time deadline) {
    for (;;) {
        sl_status status = sl_socket_receive(client->socket, reply, client->where, deadline);
        if (status != SL_OK) return status;
        const sl_message* head = &reply->body.head;
        if (head->request != client->request) {
            sl_client_sort(client, reply);
            continue;
        }
        if (head->type != SL_MSG_ERROR) return SL_OK;
        if (reply->fd >= 0) close(reply->fd);
        return sl_client_fail_as_told(client, &reply->body.error);
    }
}

sl_status sl_client_call(sl_client* client, uint32_t connection, sl_message* head, size_t bytes,
                         uint32_t wanted, sl_reply* reply, sl_time deadline) {
    uint32_t type = head->type;
    sl_status status = sl_client_begin(client, connection, deadline);
    if (status != SL_OK) return status;
    status = sl_client_send(client, head, bytes, NULL, 0, -1, deadline);
    if (status == SL_OK) status = sl_client_receive(client, reply, deadline);
    sl_client_end(client);
    if (status != SL_OK) return status;
    if (reply->body.head.type == wanted) return SL_OK;
    if (reply->fd >= 0) close(reply->fd);
    return sl_fail(SL_E_PROTOCOL, 0, "%s answered request type %u with type %u", client->where, type,
                   reply->body.head.type);
}

sl_status sl_client_say_hello(sl_client* client, const char* program, uint32_t role, sl_time deadline) {
    sl_msg_hello hello = {.head = {.type = SL_MSG_HELLO}, .role = role};
    if (program == NULL) program = program_invocation_short_name;
    snprintf(hello.program, sizeof hello.program, "%s", program);
    sl_status status = sl_client_begin(client, 0, deadline);
    if (status != SL_OK) return status;
    status = sl_client_send(client, &hello.head, sizeof hello, NULL, 0, -1, deadline);
    sl_client_end(client);
    return status;
}

/* Nobody else has the handle yet. */
sl_status sl_client_hear_hello(sl_client* client, sl_time deadline) {
    sl_reply reply;
    sl_status status = sl_client_receive(client, &reply, deadline);
    if (status != SL_OK) return status;
    if (reply.fd >= 0) close(reply.fd);
    if (reply.body.head.type != SL_MSG_HELLO_REPLY) {
        return sl_fail(SL_E_PROTOCOL, 0, "%s answered request type %u with type %u", client->where,
                       (unsigned)SL_MSG_HELLO, reply.body.head.type);
    }
    sl_version_text* version = calloc(1, sizeof *version);
    if (version == NULL) return sl_fail(SL_E_NO_MEMORY, ENOMEM, "no memory for a connection");
    memcpy(version->text, reply.body.hello.version, sizeof version->text - 1);
    version->next = client->versions;
    client->versions = version;
    return SL_OK;
}

sl_status sl_client_hello(sl_client* client, const char* program, uint32_t role, sl_time deadline) {
    sl_status status = sl_client_say_hello(client, program, role, deadline);
    return status == SL_OK ? sl_client_hear_hello(client, deadline) : status;
}

sl_status sl_disconnect(sl_client* client) {
    if (client == NULL) return SL_OK;
    sl_status status = sl_check_owner(client->pid);
    if (status != SL_OK) return status;
    __atomic_store_n(&client->left, true, __ATOMIC_SEQ_CST); /* before the shutdown: nobody connects anew */
    /* Not close: streams may be looking at the descriptor; they see the end of the connection. */
    shutdown(client->socket, SHUT_RDWR);
    sl_client_drop(client);
    return SL_OK;
}

sl_status sl_daemon_version(const sl_client* client, const char** version) {
    if (client == NULL || version == NULL) return sl_fail(SL_E_INVALID_ARGUMENT, 0, "a null argument");
    sl_status status = sl_check_owner(client->pid);
    if (status == SL_OK) *version = __atomic_load_n(&client->versions, __ATOMIC_ACQUIRE)->text;
    return status;
}
