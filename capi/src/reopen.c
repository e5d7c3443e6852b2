/* A stream that goes on at its next batch after its daemon has gone.
 *
 * Called by next.c once every batch that the old daemon had published is taken. The same OPEN is sent to the
 * client's next connection (reconnect.c), with the stream's own position; then the new segments take the
 * place of the old ones, which live on under the batches that are still leased. How far it is stays in the
 * stream, so that a caller with little time goes on there at its next call. One thread a stream; what others
 * may ask meanwhile (statistics, sizes, the report) changes under the stream's lock.
 *
 * Failure: SL_E_DISCONNECTED where nobody answers, where the stream has no position, or where daemons die
 * of it; else what the daemon says to the opening, which stops the stream unless it is about memory. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stream.h"

/* Openings without a batch between them; and how long a connection may outlive its stream. */
enum { SL_FRUITLESS = 3, SL_HANG_UP_MS = 1000, SL_LOOK_MS = 20 };

sl_status sl_wanted_keep(const sl_wanted* from, sl_wanted* to) {
    *to = *from;
    to->spec = malloc(from->spec_bytes);
    if (to->spec == NULL) return sl_fail(SL_E_NO_MEMORY, ENOMEM, "no memory for a stream");
    memcpy(to->spec, from->spec, from->spec_bytes);
    to->flags &= ~(uint32_t)SL_OPEN_CHANGED_DATASET; /* that was said of another position */
    if (from->items_fd >= 0) {
        to->items_fd = fcntl(from->items_fd, F_DUPFD_CLOEXEC, 0);
        if (to->items_fd < 0) {
            free(to->spec);
            to->spec = NULL;
            return sl_fail(SL_E_IO, errno, "no descriptor to keep an order of items");
        }
    }
    return SL_OK;
}

void sl_wanted_drop(sl_wanted* wanted) {
    if (wanted->spec == NULL) return;
    if (wanted->items_fd >= 0) close(wanted->items_fd);
    free(wanted->spec);
    wanted->spec = NULL;
}

static sl_status give_up(sl_stream* stream, sl_status status) {
    stream->why.struct_size = sizeof stream->why;
    (void)sl_last_error(&stream->why);
    stream->finished = status;
    return status;
}

static sl_status daemons_die_of_it(sl_stream* stream) {
    return give_up(stream,
                   sl_fail(SL_E_DISCONNECTED, 0,
                           "%s was lost %d times in a row before it gave the batch that is due (%" PRIu64
                           " of epoch %" PRIu64 "): the stream does not go on",
                           stream->client->where, SL_FRUITLESS, stream->batch, stream->epoch));
}

/* A daemon that ends closes its streams a moment before its connections: what it is asked now is lost. */
static sl_status await_hang_up(sl_stream* stream, sl_time deadline) {
    sl_client* client = stream->client;
    if (stream->connection != sl_connection(client)) return SL_OK;
    if (stream->closed_since == 0) stream->closed_since = sl_now();
    sl_time until = stream->closed_since + SL_HANG_UP_MS * INT64_C(1000000);
    while (!sl_socket_lost(client->socket) && sl_now() < until) {
        if (sl_now() >= deadline) return sl_fail(SL_TIMEOUT, 0, "%s has ended the stream", client->where);
        struct pollfd entry = {.fd = client->socket, .events = POLLRDHUP};
        poll(&entry, 1, SL_LOOK_MS);
    }
    return SL_OK;
}

static sl_status ask(sl_stream* stream, sl_time deadline) {
    sl_client* client = stream->client;
    sl_opening* opening = &stream->opening;
    sl_status status = SL_OK;
    if (opening->request == 0 || opening->connection != sl_connection(client)) {
        sl_opening_end(client, opening);
        if (stream->fruitless == SL_FRUITLESS) return daemons_die_of_it(stream);
        char state[SL_STATE_MAX];
        status = sl_stream_state(stream, state, sizeof state);
        if (status != SL_OK) return status;
        status = sl_opening_send(client, opening, &stream->wanted, state, deadline);
        if (status != SL_OK) return status;
        stream->fruitless++;
    }
    status = sl_opening_await(client, opening, deadline < opening->until ? deadline : opening->until);
    if (status != SL_TIMEOUT || sl_now() < opening->until) return status;
    return give_up(
        stream, sl_fail(SL_E_DISCONNECTED, 0, "%s has not opened the stream again in time", client->where));
}

/* What makes the new segments another stream's, or NULL. */
static const char* difference(const sl_stream* stream, const sl_shm_batch_header* now) {
    const sl_shm_batch_header* before = &stream->map->header;
    if (now->first_epoch != stream->epoch || now->first_batch != stream->batch)
        return "begins at another batch";
    if (now->batch_size != before->batch_size || now->batches_per_epoch != before->batches_per_epoch ||
        now->samples != before->samples || now->epochs != before->epochs) {
        return "has other sizes";
    }
    bool same = now->fingerprint == before->fingerprint && now->seed == before->seed &&
                now->order_version == before->order_version && now->global_batch == before->global_batch;
    if (!same) return "is in another order";
    if (now->tensor_count != before->tensor_count) return "has other tensors";
    for (uint32_t i = 0; i < now->tensor_count; i++) {
        const sl_shm_tensor* a = sl_shm_tensor_at(before, i);
        const sl_shm_tensor* b = sl_shm_tensor_at(now, i);
        if (strcmp(a->name, b->name) != 0 || a->dtype != b->dtype || a->ndim != b->ndim ||
            memcmp(a->shape, b->shape, sizeof a->shape) != 0) {
            return "has other tensors";
        }
    }
    return NULL;
}

static void swap(sl_stream* stream, sl_mapping* map) {
    sl_mapping* old = stream->map;
    pthread_mutex_lock(&stream->lock);
    sl_stats_add(&stream->before, old);
    stream->before.reconnects++;
    stream->map = map;
    stream->stream_id = map->header.stream_id;
    stream->connection = stream->opening.connection;
    sl_shm_store_relaxed_u32(&stream->consumed, 0);
    pthread_mutex_unlock(&stream->lock);
    sl_mapping_drop(old);
    stream->closed_since = 0;
    sl_shm_store_relaxed_u64(&stream->lost, 0);
    sl_shm_store_relaxed_u64(&map->returns->waiting_since_ns, stream->waiting_since);
}

static sl_status take_over(sl_stream* stream) {
    sl_client* client = stream->client;
    sl_opening* opening = &stream->opening;
    sl_mapping* map = NULL;
    int event_fd = -1;
    sl_status status = sl_opening_map(client, opening, stream->level, &map, &event_fd);
    const char* fault = status == SL_OK ? difference(stream, &map->header) : NULL;
    if (fault != NULL) {
        sl_mapping_drop(map);
        close(event_fd);
        status = sl_fail(SL_E_PROTOCOL, 0, "what %s has opened again %s", client->where, fault);
    }
    if (status == SL_OK) {
        swap(stream, map);
        sl_loop_found(stream, event_fd);
        sl_opening_end(client, opening);
        return SL_OK;
    }
    sl_error error = {.struct_size = sizeof error};
    (void)sl_last_error(&error);
    if (sl_client_begin(client, opening->connection, sl_now()) == SL_OK) {
        sl_client_abandon(client, opening->stream_id);
        sl_client_end(client);
    }
    sl_opening_end(client, opening);
    return sl_fail_again(&error);
}

/* A shortage may be over at the next call, and rights may be given. */
static bool stops(sl_status status) {
    return status < 0 && status != SL_E_DISCONNECTED && status != SL_E_BUDGET && status != SL_E_NO_MEMORY &&
           status != SL_E_IO && status != SL_E_DENIED;
}

static sl_status go_on(sl_stream* stream, sl_time deadline) {
    for (;;) {
        sl_status status = await_hang_up(stream, deadline);
        if (status == SL_OK) status = sl_client_revive(stream->client, deadline);
        if (status != SL_OK) return status;
        status = ask(stream, deadline);
        if (status == SL_OK) status = take_over(stream);
        if (status == SL_TIMEOUT) return status;
        if (status != SL_OK) sl_opening_end(stream->client, &stream->opening);
        bool answered = status < 0 && status != SL_E_DISCONNECTED;
        if (answered && stream->fruitless > 0)
            stream->fruitless--; /* it lives, and nothing is said against it */
        /* Lost again while it was opened: the next daemon is asked. */
        if (status != SL_E_DISCONNECTED || stream->finished != SL_OK) return status;
        if (sl_now() >= deadline) {
            return sl_fail(SL_TIMEOUT, 0, "%s was lost again while it opened the stream",
                           stream->client->where);
        }
    }
}

static sl_status has_no_position(const sl_stream* stream) {
    return sl_fail(SL_E_DISCONNECTED, 0,
                   "%s has gone, and the stream cannot go on at batch %" PRIu64 " of epoch %" PRIu64
                   ": its batches hold what finished first (order.policy \"ready\", sample level)",
                   stream->client->where, stream->batch, stream->epoch);
}

sl_status sl_stream_go_on(sl_stream* stream, sl_time deadline) {
    if (stream->batch != 0 && (stream->map->header.flags & SL_SHM_ANY_MEMBERS) != 0)
        return has_no_position(stream);
    sl_shm_store_relaxed_u64(&stream->lost, 1);
    sl_loop_lost(stream);
    sl_time start = sl_now();
    sl_status status = go_on(stream, deadline);
    sl_shm_store_relaxed_u64(&stream->wait_ns, stream->wait_ns + (uint64_t)(sl_now() - start));
    if (stops(status) && stream->finished == SL_OK) return give_up(stream, status);
    if (status == SL_TIMEOUT) sl_loop_drain(stream);
    return status;
}
