/* Opening and closing a stream, and what is known of it without taking a batch.
 *
 * What is asked for is checked here; opening.c has the conversation. Threads and failures as the public
 * header says. */
#include "stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SL_OPEN_TIMEOUT_MS = 600000, SL_CLOSE_TIMEOUT_MS = 1000 };

/* One more than the most that is allowed, if there are more. */
static uint32_t state_bytes(const sl_open_options* options) {
    return options->state == NULL ? 0 : (uint32_t)strnlen(options->state, SL_OPEN_STATE_MAX + 1);
}

static uint32_t open_flags(const sl_open_options* options) {
    uint32_t flags = options->level == SL_LEVEL_SAMPLE ? SL_OPEN_SAMPLES : 0;
    if ((options->flags & SL_OPEN_ALLOW_CHANGE) != 0) flags |= SL_OPEN_CHANGED_DATASET;
    return flags;
}

static void tell_closed(sl_client* client, uint32_t connection, uint64_t stream_id) {
    sl_msg_stream message = {.head = {.type = SL_MSG_CLOSE}, .stream_id = stream_id};
    sl_reply reply;
    sl_status status = sl_client_call(client, connection, &message.head, sizeof message, SL_MSG_CLOSE_REPLY,
                                      &reply, sl_deadline(SL_CLOSE_TIMEOUT_MS));
    if (status == SL_OK && reply.fd >= 0) close(reply.fd);
}

/* Of an opening that was answered. */
static sl_status make_stream(sl_client* client, sl_opening* opening, const sl_wanted* wanted,
                             sl_stream** stream) {
    sl_stream* made = calloc(1, sizeof *made);
    if (made == NULL) return sl_fail(SL_E_NO_MEMORY, ENOMEM, "no memory for a stream");
    made->wanted.items_fd = -1;
    made->loop = (sl_loop){-1, -1, -1, -1};
    sl_status status = client->patience == 0 ? SL_OK : sl_wanted_keep(wanted, &made->wanted);
    if (status == SL_OK)
        status = sl_opening_map(client, opening, wanted->level, &made->map, &made->loop.event_fd);
    if (status != SL_OK) {
        sl_wanted_drop(&made->wanted);
        free(made);
        return status;
    }
    made->pid = client->pid;
    made->client = sl_client_hold(client);
    made->stream_id = made->map->header.stream_id;
    made->connection = opening->connection;
    made->level = wanted->level;
    pthread_mutex_init(&made->lock, NULL);
    sl_position_begin(made);
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

/* On behalf of sl_open: asks, waits for the answer, and makes a stream of it. */
static sl_status open_wanted(sl_client* client, const sl_wanted* wanted, const char* state,
                             sl_stream** stream) {
    sl_time deadline = sl_deadline(wanted->timeout_ms == 0 ? SL_OPEN_TIMEOUT_MS : wanted->timeout_ms);
    sl_opening opening;
    sl_status status = client->patience == 0 ? SL_OK : sl_client_revive(client, deadline);
    if (status == SL_OK) status = sl_opening_send(client, &opening, wanted, state, deadline);
    if (status != SL_OK) return status;
    status = sl_opening_await(client, &opening, deadline);
    if (status == SL_OK) status = make_stream(client, &opening, wanted, stream);
    uint64_t made = opening.stream_id;
    sl_opening_end(client, &opening);
    if (status == SL_OK || status == SL_TIMEOUT || made == 0) return status;
    sl_error why = {.struct_size = sizeof why};
    (void)sl_last_error(&why);
    tell_closed(client, opening.connection, made);
    return sl_fail_again(&why);
}

sl_status sl_open(sl_client* client, const char* spec, size_t bytes, const sl_open_options* options,
                  sl_stream** stream) {
    sl_open_options checked;
    sl_items items;
    sl_status status = check_open(client, spec, bytes, options, &checked, stream);
    if (status == SL_OK && checked.items != NULL) status = sl_items_check(checked.items, &items);
    if (status != SL_OK) return status;
    sl_wanted wanted = {.spec = (char*)spec,
                        .spec_bytes = (uint32_t)bytes,
                        .slots = checked.slots,
                        .flags = open_flags(&checked),
                        .level = checked.level,
                        .timeout_ms = checked.timeout_ms,
                        .items_fd = -1};
    if (checked.items != NULL) {
        wanted.items = items.count;
        wanted.hints = items.hints != NULL;
        status = sl_items_file(&items, &wanted.items_fd);
    }
    if (status == SL_OK) status = open_wanted(client, &wanted, checked.state, stream);
    if (wanted.items_fd >= 0) close(wanted.items_fd);
    return status;
}

sl_status sl_close(sl_stream* stream) {
    if (stream == NULL) return SL_OK;
    sl_status status = sl_check_owner(stream->pid);
    if (status != SL_OK) return status;
    sl_opening_end(stream->client, &stream->opening);
    tell_closed(stream->client, stream->connection, stream->stream_id);
    sl_loop_close(&stream->loop);
    sl_wanted_drop(&stream->wanted);
    sl_mapping_drop(stream->map);
    pthread_mutex_destroy(&stream->lock);
    sl_client_drop(stream->client);
    free(stream);
    return SL_OK;
}

sl_status sl_stream_get_info(const sl_stream* stream, sl_stream_info* info) {
    if (stream == NULL) return sl_fail(SL_E_INVALID_ARGUMENT, 0, "the stream is null");
    sl_status status = sl_check_owner(stream->pid);
    if (status == SL_OK) status = sl_check_result(info, "sl_stream_info");
    if (status != SL_OK) return status;
    pthread_mutex_t* lock = &((sl_stream*)stream)->lock; /* the handle is not const, its description is */
    pthread_mutex_lock(lock);
    const sl_shm_batch_header* header = &stream->map->header;
    sl_stream_info ours = {.batch_size = header->batch_size,
                           .batches_per_epoch = header->batches_per_epoch,
                           .samples = header->samples,
                           .epochs = header->epochs,
                           .first_epoch = stream->first_epoch,
                           .slots = header->slot_count,
                           .level = stream->level,
                           .first_batch = stream->first_batch};
    pthread_mutex_unlock(lock);
    sl_give_result(info, &ours, sizeof ours);
    return SL_OK;
}
