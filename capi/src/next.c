/* Taking descriptors from the ring: sl_next and sl_next_sample.
 *
 * One thread a stream. Where the daemon has gone reopen.c finds the stream another one. A descriptor is
 * copied out of shared memory once, checked, and only then used; the hand-over of a ready batch is a few
 * loads and two stores, without system call, lock or allocation. */
#include <string.h>

#include "shm/fault.h"
#include "stream.h"

static sl_status stop(sl_stream* stream, sl_status status) {
    stream->finished = status;
    return status;
}

static sl_status lease(sl_stream* stream, const sl_shm_descriptor* descriptor, sl_batch** batch) {
    sl_mapping* map = stream->map;
    if (descriptor->slot >= map->header.slot_count || descriptor->count > map->header.batch_size) {
        return stop(
            stream,
            sl_fail(SL_E_PROTOCOL, 0, "a batch in slot %u with %u rows: there are %u slots of %u",
                    descriptor->slot, descriptor->count, map->header.slot_count, map->header.batch_size));
    }
    sl_batch* leased = &map->batches[descriptor->slot];
    /* acquire: pairs with the release of whoever ended the slot's last lease. */
    if (__atomic_load_n(&leased->state, __ATOMIC_ACQUIRE) != SL_BATCH_FREE) {
        return stop(stream,
                    sl_fail(SL_E_PROTOCOL, 0, "slot %u was given while it is leased", descriptor->slot));
    }
    leased->descriptor = *descriptor;
    sl_writes_begin(leased);
    sl_mapping_hold(map);
    __atomic_store_n(&leased->state, SL_BATCH_LEASED, __ATOMIC_RELEASE);
    sl_position_advance(stream);
    stream->fruitless = 0;
    SL_FAULT(client_leased);
    *batch = leased;
    return SL_OK;
}

static sl_status stream_error(const sl_stream* stream) {
    sl_shm_stream_error page;
    memcpy(&page, stream->map->segment + SL_SHM_ERROR_OFFSET, sizeof page);
    return sl_fail_stream(&page);
}

static sl_status take(sl_stream* stream, sl_batch** batch) {
    sl_mapping* map = stream->map;
    sl_shm_descriptor descriptor;
    uint64_t index = stream->consumed & (map->header.ring_capacity - 1);
    memcpy(&descriptor, map->segment + map->header.ring_offset + index * sizeof descriptor,
           sizeof descriptor);
    SL_FAULT(client_descriptor_copied);
    sl_shm_store_relaxed_u32(&stream->consumed, stream->consumed + 1);
    /* After the copy: from here on the daemon may write the entry again. */
    sl_shm_store_release_u32(&map->returns->consumed, stream->consumed);
    SL_FAULT(client_descriptor_taken);
    sl_wait_ended(stream);
    if (descriptor.kind == SL_DESCRIPTOR_BATCH) return lease(stream, &descriptor, batch);

    /* No release will follow this one, so a daemon that waits for room in the ring is told now. */
    sl_mapping_ring(map);
    switch (descriptor.kind) {
        case SL_DESCRIPTOR_END_OF_EPOCH:
            stream->owes_end = false;
            return SL_END_OF_EPOCH;
        case SL_DESCRIPTOR_END:
            return stop(stream, SL_END);
        case SL_DESCRIPTOR_ERROR:
            return stop(stream, stream_error(stream));
        default:
            return stop(stream, sl_fail(SL_E_PROTOCOL, 0, "a descriptor of kind %u", descriptor.kind));
    }
}

static sl_status repeat(const sl_stream* stream) {
    if (stream->finished == SL_END) return SL_END;
    if (stream->why.code != SL_OK) return sl_fail_again(&stream->why);
    if (stream->finished == SL_E_PROTOCOL) {
        return sl_fail(SL_E_PROTOCOL, 0, "the stream has stopped because the daemon broke the protocol");
    }
    return stream_error(stream);
}

/* The daemon has gone. What it was about to say of the batches that were taken is known here too. */
static sl_status go_on(sl_stream* stream, sl_time deadline) {
    if (stream->owes_end) {
        stream->owes_end = false;
        return SL_END_OF_EPOCH;
    }
    if (stream->epoch >= stream->map->header.epochs) return stop(stream, SL_END);
    return sl_stream_go_on(stream, deadline);
}

/* SL_OK: a descriptor is there. */
static sl_status await_descriptor(sl_stream* stream, sl_time deadline) {
    for (;;) {
        sl_status status = sl_stream_await(stream, deadline);
        bool lost = status == SL_E_DISCONNECTED && stream->wanted.spec != NULL;
        if (!lost || sl_client_has_left(stream->client)) return status;
        status = go_on(stream, deadline);
        if (status != SL_OK) return status;
    }
}

static sl_status next(sl_stream* stream, sl_level level, int64_t timeout_ms, sl_batch** batch) {
    if (stream == NULL || batch == NULL) return sl_fail(SL_E_INVALID_ARGUMENT, 0, "a null argument");
    *batch = NULL;
    sl_status status = sl_check_owner(stream->pid);
    if (status != SL_OK) return status;
    if (stream->level != level) {
        return sl_fail(SL_E_INVALID_ARGUMENT, 0, "this stream was opened at %s level: call %s",
                       level == SL_LEVEL_BATCH ? "sample" : "batch",
                       level == SL_LEVEL_BATCH ? "sl_next_sample" : "sl_next");
    }
    if (stream->finished != SL_OK) return repeat(stream);
    /* PUBLISH: every byte of the batches below the count is visible after this. */
    if (sl_shm_load_acquire_u32(&sl_live(stream->map)->published) == stream->consumed) {
        status = await_descriptor(stream, timeout_ms == 0 ? 0 : sl_deadline(timeout_ms));
        if (status != SL_OK) return status;
    }
    return take(stream, batch);
}

sl_status sl_next(sl_stream* stream, int64_t timeout_ms, sl_batch** batch) {
    return next(stream, SL_LEVEL_BATCH, timeout_ms, batch);
}

sl_status sl_next_sample(sl_stream* stream, int64_t timeout_ms, sl_batch** batch, sl_sample_info* info) {
    if (info != NULL) {
        sl_status status = sl_check_result(info, "sl_sample_info");
        if (status != SL_OK) return status;
    }
    sl_status status = next(stream, SL_LEVEL_SAMPLE, timeout_ms, batch);
    if (status == SL_OK && info != NULL) sl_copy_sample(*batch, 0, info);
    return status;
}
