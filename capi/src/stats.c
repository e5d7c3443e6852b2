/* Counters of a stream: what the daemon counts in the live page, and what this client measured itself. Any
 * thread; relaxed loads, because counters order nothing. */
#include "internal.h"

static uint64_t count(const uint64_t* word) {
    return sl_shm_load_relaxed_u64(word);
}

sl_status sl_stream_stats(const sl_stream* stream, sl_stats* stats) {
    if (stream == NULL) return sl_fail(SL_E_INVALID_ARGUMENT, 0, "the stream is null");
    sl_status status = sl_check_owner(stream->pid);
    if (status == SL_OK) status = sl_check_result(stats, "sl_stats");
    if (status != SL_OK) return status;
    const sl_shm_batch_live* live = sl_live(stream->map);
    const sl_shm_stats* from = &live->stats;
    uint32_t consumed = sl_shm_load_relaxed_u32(&stream->consumed);
    sl_stats ours = {.ready = sl_shm_load_relaxed_u32(&live->published) - consumed,
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
