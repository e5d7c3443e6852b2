/* Counters of a stream: what the daemon counts in the live page, and what this client measured itself. Any
 * thread; relaxed loads, because counters order nothing. */
#include "internal.h"

static uint64_t count(const uint64_t* word) {
    return sl_shm_load_relaxed_u64(word);
}

/* Batches among the descriptors that were published and not taken; ends of epochs do not count. While another
 * thread takes some an entry may be written anew: a count that is one off is as good as one taken earlier. */
static uint32_t ready_batches(const sl_stream* stream) {
    const sl_mapping* map = stream->map;
    const uint8_t* ring = map->segment + map->header.ring_offset;
    uint32_t from = sl_shm_load_relaxed_u32(&stream->consumed);
    uint32_t unread = sl_shm_load_acquire_u32(&sl_live(map)->published) - from; /* PUBLISH */
    if (unread > map->header.ring_capacity) return 0;
    uint32_t batches = 0;
    for (uint32_t i = 0; i < unread; i++) {
        uint64_t index = (from + i) & (map->header.ring_capacity - 1);
        const uint8_t* entry = ring + index * sizeof(sl_shm_descriptor);
        const uint32_t* kind = (const uint32_t*)(entry + offsetof(sl_shm_descriptor, kind));
        if (sl_shm_load_relaxed_u32(kind) == SL_DESCRIPTOR_BATCH) batches++;
    }
    return batches;
}

sl_status sl_stream_stats(const sl_stream* stream, sl_stats* stats) {
    if (stream == NULL) return sl_fail(SL_E_INVALID_ARGUMENT, 0, "the stream is null");
    sl_status status = sl_check_owner(stream->pid);
    if (status == SL_OK) status = sl_check_result(stats, "sl_stats");
    if (status != SL_OK) return status;
    const sl_shm_batch_live* live = sl_live(stream->map);
    const sl_shm_stats* from = &live->stats;
    sl_stats ours = {.ready = ready_batches(stream),
                     .batches = count(&from->batches),
                     .samples = count(&from->samples),
                     .failed = count(&from->failed),
                     .substituted = count(&from->substituted),
                     .warnings = count(&from->warnings),
                     .retried = count(&from->retried),
                     .bytes_read = count(&from->bytes_read),
                     .decode_ns = count(&from->decode_ns),
                     .class_errors = count(&from->class_errors),
                     .predicted = count(&from->predicted),
                     .absolute_error_ppm = count(&from->absolute_error_ppm),
                     .predicted_ns = count(&from->predicted_ns),
                     .actual_ns = count(&from->actual_ns),
                     .ring_full_ns = count(&from->ring_full_ns),
                     .wait_ns = count(&stream->wait_ns),
                     .waits = count(&stream->waits)};
    for (int lane = 0; lane < SL_LANES; lane++) {
        ours.lane_samples[lane] = count(&from->lane_samples[lane]);
        ours.lane_decode_ns[lane] = count(&from->lane_decode_ns[lane]);
    }
    sl_give_result(stats, &ours, sizeof ours);
    return SL_OK;
}
