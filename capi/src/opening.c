/* OPEN and its answer: four segments with one descriptor each and then OPEN_REPLY (shm/messages.h).
 *
 * Used by stream.c for the first opening and by reopen.c for later ones. The answer may come long after its
 * asker ran out of time, so it is collected in the opening by whichever thread receives it, under the
 * client's lock. Whatever is wrong with the segments, the stream is given up in the daemon, so that a failed
 * opening holds no memory there. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stream.h"

/* Between two turns somebody else may ask, or give an opening up. */
enum { SL_OPEN_TIMEOUT_MS = 600000, SL_TURN_MS = 20, SL_PAUSE_MS = 1 };

static sl_status keep_part(const sl_client* client, const sl_reply* reply, sl_parts* all) {
    uint32_t kind = reply->body.segment.kind;
    if (reply->fd < 0)
        return sl_fail(SL_E_PROTOCOL, 0, "%s sent a segment without descriptor", client->where);
    if (kind < SL_SEGMENT_BATCHES || kind > SL_SEGMENT_EVENT || all->fd[kind - 1] >= 0) {
        close(reply->fd);
        return sl_fail(SL_E_PROTOCOL, 0, "%s sent an unexpected segment of kind %u", client->where, kind);
    }
    all->fd[kind - 1] = reply->fd;
    return SL_OK;
}

/* The first thing that is wrong stays what is told. */
static void keep_fault(sl_opening* opening, sl_status status) {
    if (status == SL_OK || opening->error.code != SL_OK) return;
    opening->error.struct_size = sizeof opening->error;
    (void)sl_last_error(&opening->error);
}

/* Under the client's lock. */
static void fill_in(const sl_client* client, sl_opening* opening, const sl_reply* reply) {
    const sl_message* head = &reply->body.head;
    if (head->type == SL_MSG_SEGMENT) {
        keep_fault(opening, keep_part(client, reply, &opening->parts));
        return;
    }
    if (reply->fd >= 0) close(reply->fd);
    if (head->type == SL_MSG_ERROR) {
        keep_fault(opening, sl_client_fail_as_told(client, &reply->body.error));
    } else if (head->type == SL_MSG_OPEN_REPLY) {
        opening->stream_id = reply->body.open.stream_id;
    } else {
        keep_fault(opening, sl_fail(SL_E_PROTOCOL, 0, "%s answered an opening with type %u", client->where,
                                    head->type));
    }
    opening->status = opening->error.code;
}

bool sl_opening_take(sl_client* client, const sl_reply* reply) {
    pthread_mutex_lock(&client->lock);
    sl_opening* opening = client->openings;
    while (opening != NULL && opening->request != reply->body.head.request)
        opening = opening->next;
    bool found = opening != NULL && opening->status == SL_TIMEOUT;
    if (found) fill_in(client, opening, reply);
    pthread_mutex_unlock(&client->lock);
    return found;
}

/* Spec and state are one body for the socket. */
static sl_status send_open(sl_client* client, const sl_wanted* wanted, const char* state, sl_time deadline) {
    size_t state_bytes = state == NULL ? 0 : strnlen(state, SL_OPEN_STATE_MAX);
    sl_msg_open message = {.head = {.type = SL_MSG_OPEN},
                           .slots = wanted->slots,
                           .flags = wanted->flags,
                           .spec_bytes = wanted->spec_bytes,
                           .state_bytes = (uint32_t)state_bytes};
    size_t bytes = wanted->spec_bytes + state_bytes;
    char* body = malloc(bytes);
    if (body == NULL) return sl_fail(SL_E_NO_MEMORY, ENOMEM, "no memory for a spec of %zu bytes", bytes);
    memcpy(body, wanted->spec, wanted->spec_bytes);
    if (state_bytes > 0) memcpy(body + wanted->spec_bytes, state, state_bytes);
    sl_status status = sl_client_send(client, &message.head, sizeof message, body, bytes, -1, deadline);
    free(body);
    return status;
}

static void begin(sl_client* client, sl_opening* opening, const sl_wanted* wanted) {
    memset(opening, 0, sizeof *opening);
    for (int i = 0; i < SL_PARTS; i++)
        opening->parts.fd[i] = -1;
    opening->request = client->request;
    opening->connection = sl_connection(client);
    opening->until = sl_deadline(wanted->timeout_ms == 0 ? SL_OPEN_TIMEOUT_MS : wanted->timeout_ms);
    opening->status = SL_TIMEOUT;
    pthread_mutex_lock(&client->lock);
    opening->next = client->openings;
    client->openings = opening;
    pthread_mutex_unlock(&client->lock);
}

sl_status sl_opening_send(sl_client* client, sl_opening* opening, const sl_wanted* wanted, const char* state,
                          sl_time deadline) {
    sl_status status = sl_client_begin(client, 0, deadline);
    if (status != SL_OK) return status;
    begin(client, opening, wanted); /* first, for even the answer to a message cut short may come */
    if (wanted->items_fd >= 0) status = sl_items_send(client, wanted, deadline);
    if (status == SL_OK) status = send_open(client, wanted, state, deadline);
    sl_client_end(client);
    if (status != SL_OK) sl_opening_end(client, opening);
    return status;
}

static sl_status answer(sl_client* client, const sl_opening* opening) {
    pthread_mutex_lock(&client->lock);
    sl_status status = opening->status;
    pthread_mutex_unlock(&client->lock);
    return status < 0 ? sl_fail_again(&opening->error) : status;
}

static sl_status await_for_a_turn(sl_client* client, sl_opening* opening, sl_time deadline) {
    sl_status status = sl_client_begin(client, opening->connection, deadline);
    if (status != SL_OK) return status;
    sl_time turn = sl_now() + SL_TURN_MS * INT64_C(1000000);
    /* Whoever had the turn before may have received it. */
    while (status == SL_OK && (status = answer(client, opening)) == SL_TIMEOUT) {
        sl_reply reply;
        status = sl_socket_receive(client->socket, &reply, client->where, turn < deadline ? turn : deadline);
        if (status == SL_OK) sl_client_sort(client, &reply);
    }
    sl_client_end(client);
    return status;
}

sl_status sl_opening_await(sl_client* client, sl_opening* opening, sl_time deadline) {
    sl_status status = answer(client, opening);
    while (status == SL_TIMEOUT) {
        status = await_for_a_turn(client, opening, deadline);
        if (status != SL_TIMEOUT || sl_now() >= deadline) break;
        poll(NULL, 0, SL_PAUSE_MS);
    }
    return status;
}

static sl_status set_nonblocking(int fd) {
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && ((flags & O_NONBLOCK) != 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0))
        return SL_OK;
    return sl_fail(SL_E_IO, errno, "cannot prepare an event descriptor");
}

static sl_status map_parts(const sl_client* client, sl_parts* all, sl_level level, sl_mapping** map,
                           int* event_fd) {
    for (int i = 0; i < SL_PARTS; i++) {
        if (all->fd[i] < 0) return sl_fail(SL_E_PROTOCOL, 0, "%s left out a segment", client->where);
    }
    int* batches = &all->fd[SL_SEGMENT_BATCHES - 1];
    int* wake = &all->fd[SL_SEGMENT_WAKE - 1];
    int* event = &all->fd[SL_SEGMENT_EVENT - 1];
    sl_mapping* made = NULL;
    sl_status status = set_nonblocking(*wake);
    if (status == SL_OK) status = sl_mapping_new(*batches, all->fd[SL_SEGMENT_RETURNS - 1], *wake, &made);
    if (status != SL_OK) return status;
    *batches = -1;
    *wake = -1;
    if (level == SL_LEVEL_SAMPLE && made->header.batch_size != 1) {
        sl_mapping_drop(made);
        return sl_fail(SL_E_PROTOCOL, 0, "%s opened a sample stream with batches", client->where);
    }
    *map = made;
    *event_fd = *event;
    *event = -1;
    return SL_OK;
}

sl_status sl_opening_map(sl_client* client, sl_opening* opening, sl_level level, sl_mapping** map,
                         int* event_fd) {
    return map_parts(client, &opening->parts, level, map, event_fd);
}

void sl_opening_end(sl_client* client, sl_opening* opening) {
    if (opening->request == 0) return;
    pthread_mutex_lock(&client->lock);
    sl_opening** place = &client->openings;
    while (*place != NULL && *place != opening)
        place = &(*place)->next;
    if (*place == opening) *place = opening->next;
    pthread_mutex_unlock(&client->lock);
    for (int i = 0; i < SL_PARTS; i++) {
        if (opening->parts.fd[i] >= 0) close(opening->parts.fd[i]);
    }
    opening->request = 0;
}
