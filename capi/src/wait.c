/* Waiting for the next descriptor: the client's half of PUBLISH and SLEEP (shm/layout.h).
 *
 * One thread a stream. A wait ends by a publication, by the deadline, or because the daemon has gone: the
 * socket is looked at between slices of a tenth of a second, since a dead daemon rings no futex. */
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "stream.h"

enum { SL_SLICE_NS = 100000000 };

void sl_futex_sleep(const uint32_t* word, uint32_t seen, sl_time ns) {
    struct timespec length = {ns / 1000000000, ns % 1000000000};
    /* Not FUTEX_PRIVATE: the waker is another process. Works on a read-only map. Every reason to return is a
     * reason to look again, so the result is not needed. */
    (void)syscall(SYS_futex, word, FUTEX_WAIT, seen, &length, NULL, 0);
}

/* SL_OK: a descriptor is there. SL_TIMEOUT stands for "not yet". */
static sl_status look(const sl_stream* stream) {
    const sl_shm_batch_live* live = sl_live(stream->map);
    /* `closed` first: what was published before it was set is still to be taken. */
    uint32_t closed = sl_shm_load_acquire_u32(&live->closed);
    if (sl_shm_load_seq_cst_u32(&live->published) != stream->consumed) return SL_OK;
    if (closed != 0) {
        return sl_fail(SL_E_DISCONNECTED, 0, "%s has ended the stream", stream->client->where);
    }
    return SL_TIMEOUT;
}

static sl_status check_daemon(const sl_stream* stream) {
    const sl_client* client = stream->client;
    /* Another stream's thread may have met its end, and have connected anew. */
    if (stream->connection == sl_connection(client) && !sl_socket_lost(client->socket)) return SL_OK;
    /* It may have published in its last moment. */
    if (look(stream) == SL_OK) return SL_OK;
    return sl_fail(SL_E_DISCONNECTED, 0, "the connection to %s has ended", client->where);
}

/* Makes the event descriptor unreadable, then looks once more: a ring that was swallowed is not lost. */
static sl_status give_up(const sl_stream* stream) {
    if (stream->loop.fd < 0) return SL_TIMEOUT;
    sl_loop_drain(stream);
    return look(stream);
}

static sl_status sleep_until(sl_stream* stream, sl_time deadline) {
    const sl_shm_batch_live* live = sl_live(stream->map);
    uint32_t* flag = &stream->map->returns->client_sleeps;
    sl_status status;
    for (;;) {
        sl_shm_store_seq_cst_u32(flag, 1); /* SLEEP: the flag first, then look again */
        sl_shm_fence_seq_cst();
        status = look(stream);
        if (status != SL_TIMEOUT) break;
        status = check_daemon(stream);
        if (status != SL_OK) break;
        sl_time left = deadline == SL_NEVER ? SL_SLICE_NS : deadline - sl_now();
        if (left <= 0) {
            status = give_up(stream);
            break;
        }
        sl_futex_sleep(&live->published, stream->consumed, left < SL_SLICE_NS ? left : SL_SLICE_NS);
    }
    sl_shm_store_relaxed_u32(flag, 0);
    return status;
}

/* The daemon cannot see when a client begins to wait. A wait that ran out goes on with the next one, so that
 * who asks in slices is seen to wait all the time. */
static void say_waiting(sl_stream* stream, sl_time since) {
    if (stream->waiting_since != 0) return;
    stream->waiting_since = (uint64_t)since;
    sl_shm_store_relaxed_u64(&stream->map->returns->waiting_since_ns, stream->waiting_since);
}

/* A descriptor has been taken. */
void sl_wait_ended(sl_stream* stream) {
    if (stream->waiting_since == 0) return;
    sl_shm_return_page* page = stream->map->returns;
    uint64_t waited = (uint64_t)sl_now() - stream->waiting_since;
    stream->waiting_since = 0;
    sl_shm_store_relaxed_u64(&page->waiting_since_ns, 0);
    sl_shm_store_relaxed_u64(&page->waited_ns, sl_shm_load_relaxed_u64(&page->waited_ns) + waited);
}

sl_status sl_stream_await(sl_stream* stream, sl_time deadline) {
    sl_status status = look(stream);
    if (status != SL_TIMEOUT) return status;
    sl_time start = sl_now();
    if (deadline <= start) {
        status = check_daemon(stream);
        return status == SL_OK ? give_up(stream) : status;
    }
    say_waiting(stream, start);
    status = sleep_until(stream, deadline);
    uint64_t waited = (uint64_t)(sl_now() - start);
    sl_shm_store_relaxed_u64(&stream->wait_ns, stream->wait_ns + waited);
    sl_shm_store_relaxed_u64(&stream->waits, stream->waits + 1);
    return status;
}
