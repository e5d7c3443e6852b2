/* Counters of a stream: what its daemons counted in their live pages, and what this client measured itself.
 * Any thread; relaxed loads, because counters order nothing. The stream's lock is held, for it may be
 * changing daemons. What a daemon had begun and did not deliver is in the sums as well: that work was done.
 */
#include "stream.h"

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

void sl_stats_add(sl_stats* sum, const sl_mapping* map) {
    const sl_shm_stats* from = &sl_live(map)->stats;
    sum->batches += count(&from->batches);
    sum->samples += count(&from->samples);
    sum->failed += count(&from->failed);
    sum->substituted += count(&from->substituted);
    sum->warnings += count(&from->warnings);
    sum->retried += count(&from->retried);
    sum->bytes_read += count(&from->bytes_read);
    sum->decode_ns += count(&from->decode_ns);
    sum->class_errors += count(&from->class_errors);
    sum->predicted += count(&from->predicted);
    sum->absolute_error_ppm += count(&from->absolute_error_ppm);
    sum->predicted_ns += count(&from->predicted_ns);
    sum->actual_ns += count(&from->actual_ns);
    sum->ring_full_ns += count(&from->ring_full_ns);
    for (int lane = 0; lane < SL_LANES; lane++) {
        sum->lane_samples[lane] += count(&from->lane_samples[lane]);
        sum->lane_decode_ns[lane] += count(&from->lane_decode_ns[lane]);
    }
}

sl_status sl_stream_stats(const sl_stream* stream, sl_stats* stats) {
    if (stream == NULL) return sl_fail(SL_E_INVALID_ARGUMENT, 0, "the stream is null");
    sl_status status = sl_check_owner(stream->pid);
    if (status == SL_OK) status = sl_check_result(stats, "sl_stats");
    if (status != SL_OK) return status;
    pthread_mutex_t* lock = &((sl_stream*)stream)->lock; /* const is what the caller sees of the stream */
    pthread_mutex_lock(lock);
    sl_stats ours = stream->before;
    sl_stats_add(&ours, stream->map);
    ours.ready = ready_batches(stream);
    pthread_mutex_unlock(lock);
    ours.wait_ns = count(&stream->wait_ns);
    ours.waits = count(&stream->waits);
    ours.lost = count(&stream->lost);
    sl_give_result(stats, &ours, sizeof ours);
    return SL_OK;
}
