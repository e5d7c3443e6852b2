/* Opening and closing a stream, and what is known of it without taking a batch.
 *
 * OPEN is answered by four segments with one descriptor each and then OPEN_REPLY (shm/messages.h). Whatever
 * is wrong with them, the stream is closed again in the daemon, so that a failed opening holds no memory
 * there. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

enum { SL_OPEN_TIMEOUT_MS = 600000, SL_CLOSE_TIMEOUT_MS = 1000, SL_PARTS = 4 };

/* Descriptors of the parts, indexed by kind - 1: batches, returns, wake, event. */
typedef struct parts {
    int fd[SL_PARTS];
} parts;

static void close_parts(parts* all) {
    for (int i = 0; i < SL_PARTS; i++) {
        if (all->fd[i] >= 0) close(all->fd[i]);
    }
}

static sl_status keep_part(sl_client* client, const sl_reply* reply, parts* all) {
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

/* One more than the most that is allowed, if there are more. */
static uint32_t state_bytes(const sl_open_options* options) {
    return options->state == NULL ? 0 : (uint32_t)strnlen(options->state, SL_OPEN_STATE_MAX + 1);
}

/* Spec and state are one body for the socket. */
static sl_status send_open(sl_client* client, sl_msg_open* message, const char* spec, const char* state,
                           sl_time deadline) {
    size_t bytes = (size_t)message->spec_bytes + message->state_bytes;
    char* body = malloc(bytes);
    if (body == NULL) return sl_fail(SL_E_NO_MEMORY, ENOMEM, "no memory for a spec of %zu bytes", bytes);
    memcpy(body, spec, message->spec_bytes);
    if (message->state_bytes > 0) memcpy(body + message->spec_bytes, state, message->state_bytes);
    sl_status status = sl_client_send(client, &message->head, sizeof *message, body, bytes, -1, deadline);
    free(body);
    return status;
}

static uint32_t open_flags(const sl_open_options* options) {
    uint32_t flags = options->level == SL_LEVEL_SAMPLE ? SL_OPEN_SAMPLES : 0;
    if ((options->flags & SL_OPEN_ALLOW_CHANGE) != 0) flags |= SL_OPEN_CHANGED_DATASET;
    return flags;
}

/* The answer to OPEN; *stream_id is 0 unless the daemon has made a stream. */
static sl_status take_answer(sl_client* client, parts* all, uint64_t* stream_id, sl_time deadline) {
    sl_status first_fault = SL_OK;
    for (;;) {
        sl_reply reply;
        sl_status status = sl_client_receive(client, &reply, deadline);
        if (status != SL_OK) return status;
        if (reply.body.head.type == SL_MSG_SEGMENT) {
            status = keep_part(client, &reply, all);
            if (first_fault == SL_OK) first_fault = status;
            continue;
        }
        if (reply.fd >= 0) close(reply.fd);
        if (reply.body.head.type != SL_MSG_OPEN_REPLY) {
            return sl_fail(SL_E_PROTOCOL, 0, "%s answered an opening with type %u", client->where,
                           reply.body.head.type);
        }
        *stream_id = reply.body.open.stream_id;
        return first_fault;
    }
}

/* Sends OPEN, after the order of a stream of items, and collects the answer. */
static sl_status ask(sl_client* client, const char* spec, size_t bytes, const sl_open_options* options,
                     parts* all, uint64_t* stream_id) {
    sl_time deadline = sl_deadline(options->timeout_ms == 0 ? SL_OPEN_TIMEOUT_MS : options->timeout_ms);
    sl_msg_open message = {.head = {.type = SL_MSG_OPEN},
                           .slots = options->slots,
                           .flags = open_flags(options),
                           .spec_bytes = (uint32_t)bytes,
                           .state_bytes = state_bytes(options)};
    sl_status status = sl_client_begin(client, deadline);
    if (status != SL_OK) return status;
    if (options->items != NULL) status = sl_items_send(client, options->items, deadline);
    if (status == SL_OK) status = send_open(client, &message, spec, options->state, deadline);
    if (status == SL_OK) status = take_answer(client, all, stream_id, deadline);
    sl_client_end(client);
    return status;
}

static void tell_closed(sl_client* client, uint64_t stream_id) {
    sl_msg_stream message = {.head = {.type = SL_MSG_CLOSE}, .stream_id = stream_id};
    sl_reply reply;
    sl_status status = sl_client_call(client, &message.head, sizeof message, SL_MSG_CLOSE_REPLY, &reply,
                                      sl_deadline(SL_CLOSE_TIMEOUT_MS));
    if (status == SL_OK && reply.fd >= 0) close(reply.fd);
}

static sl_status set_nonblocking(int fd) {
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && ((flags & O_NONBLOCK) != 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0))
        return SL_OK;
    return sl_fail(SL_E_IO, errno, "cannot prepare an event descriptor");
}

/* Turns the parts into a stream and takes them over: none is left open afterwards that the stream does not
 * use. */
static sl_status attach(sl_client* client, parts* all, sl_level level, sl_stream** stream) {
    for (int i = 0; i < SL_PARTS; i++) {
        if (all->fd[i] < 0) return sl_fail(SL_E_PROTOCOL, 0, "%s left out a segment", client->where);
    }
    int* batches = &all->fd[SL_SEGMENT_BATCHES - 1];
    int* wake = &all->fd[SL_SEGMENT_WAKE - 1];
    int* event = &all->fd[SL_SEGMENT_EVENT - 1];
    sl_status status = set_nonblocking(*wake);
    if (status != SL_OK) return status;
    sl_stream* made = calloc(1, sizeof *made);
    if (made == NULL) return sl_fail(SL_E_NO_MEMORY, ENOMEM, "no memory for a stream");
    status = sl_mapping_new(*batches, all->fd[SL_SEGMENT_RETURNS - 1], *wake, &made->map);
    if (status == SL_OK) {
        *batches = -1;
        *wake = -1;
    }
    if (status == SL_OK && level == SL_LEVEL_SAMPLE && made->map->header.batch_size != 1) {
        sl_mapping_drop(made->map);
        status = sl_fail(SL_E_PROTOCOL, 0, "%s opened a sample stream with batches", client->where);
    }
    if (status != SL_OK) {
        free(made);
        return status;
    }
    made->pid = client->pid;
    made->client = sl_client_hold(client);
    made->stream_id = made->map->header.stream_id;
    made->level = level;
    sl_position_begin(made);
    made->event_fd = *event;
    made->loop_fd = -1;
    *event = -1;
    *stream = made;
    return SL_OK;
}

static sl_status check_open(const sl_client* client, const char* spec, size_t bytes,
                            const sl_open_options* given, sl_open_options* options, sl_stream** stream) {
    if (client == NULL || spec == NULL || stream == NULL) {
        return sl_fail(SL_E_INVALID_ARGUMENT, 0, "a null argument");
    }
    *stream = NULL;
    sl_status status = sl_check_owner(client->pid);
    if (status == SL_OK) status = sl_take_options(given, options, sizeof *options, "sl_open_options");
    if (status != SL_OK) return status;
    if (bytes == 0 || bytes > SL_SPEC_MAX) {
        return sl_fail(SL_E_INVALID_ARGUMENT, 0, "the spec has %zu bytes; 1 to %u are allowed", bytes,
                       SL_SPEC_MAX);
    }
    if (options->level != SL_LEVEL_BATCH && options->level != SL_LEVEL_SAMPLE) {
        return sl_fail(SL_E_INVALID_ARGUMENT, 0, "sl_open_options.level is %d: no such level",
                       (int)options->level);
    }
    if (options->slots > SL_SHM_MAX_SLOTS || (options->flags & ~SL_OPEN_ALLOW_CHANGE) != 0) {
        return sl_fail(SL_E_INVALID_ARGUMENT, 0,
                       "sl_open_options.slots is %u (at most %u), flags is %u (known: SL_OPEN_ALLOW_CHANGE)",
                       options->slots, SL_SHM_MAX_SLOTS, options->flags);
    }
    if (state_bytes(options) > SL_OPEN_STATE_MAX) {
        return sl_fail(SL_E_SPEC, 0, "sl_open_options.state has more than %u bytes: it is no saved position",
                       SL_OPEN_STATE_MAX);
    }
    return SL_OK;
}

sl_status sl_open(sl_client* client, const char* spec, size_t bytes, const sl_open_options* options,
                  sl_stream** stream) {
    sl_open_options checked;
    sl_items items;
    sl_status status = check_open(client, spec, bytes, options, &checked, stream);
    if (status == SL_OK && checked.items != NULL) {
        status = sl_items_check(checked.items, &items);
        checked.items = &items;
    }
    if (status != SL_OK) return status;
    parts all = {{-1, -1, -1, -1}};
    uint64_t stream_id = 0;
    status = ask(client, spec, bytes, &checked, &all, &stream_id);
    if (status == SL_OK) status = attach(client, &all, checked.level, stream);
    close_parts(&all);
    if (status != SL_OK && stream_id != 0) {
        sl_error why = {.struct_size = sizeof why};
        (void)sl_last_error(&why);
        tell_closed(client, stream_id);
        return sl_fail(status, 0, "%s", why.message);
    }
    return status;
}

sl_status sl_close(sl_stream* stream) {
    if (stream == NULL) return SL_OK;
    sl_status status = sl_check_owner(stream->pid);
    if (status != SL_OK) return status;
    tell_closed(stream->client, stream->stream_id);
    if (stream->loop_fd >= 0) close(stream->loop_fd);
    close(stream->event_fd);
    sl_mapping_drop(stream->map);
    sl_client_drop(stream->client);
    free(stream);
    return SL_OK;
}

sl_status sl_stream_get_info(const sl_stream* stream, sl_stream_info* info) {
    if (stream == NULL) return sl_fail(SL_E_INVALID_ARGUMENT, 0, "the stream is null");
    sl_status status = sl_check_owner(stream->pid);
    if (status == SL_OK) status = sl_check_result(info, "sl_stream_info");
    if (status != SL_OK) return status;
    const sl_shm_batch_header* header = &stream->map->header;
    sl_stream_info ours = {.batch_size = header->batch_size,
                           .batches_per_epoch = header->batches_per_epoch,
                           .samples = header->samples,
                           .epochs = header->epochs,
                           .first_epoch = header->first_epoch,
                           .slots = header->slot_count,
                           .level = stream->level,
                           .first_batch = header->first_batch};
    sl_give_result(info, &ours, sizeof ours);
    return SL_OK;
}
