/* Where a stream is, kept by the client alone: sl_stream_state.
 *
 * The daemon wrote into the checked header what fixes the order, and where the stream began; from there each
 * taken batch moves the position by one. So the text needs no conversation, also after the daemon has gone,
 * and batches that wait in the ring do not count. The thread that calls sl_next owns the position. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "stream.h"

enum { SL_STATE_FORMAT = 1 };

void sl_position_begin(sl_stream* stream) {
    stream->epoch = stream->first_epoch = stream->map->header.first_epoch;
    stream->batch = stream->first_batch = stream->map->header.first_batch;
}

void sl_position_advance(sl_stream* stream) {
    if (++stream->batch < stream->map->header.batches_per_epoch) return;
    stream->batch = 0;
    stream->epoch++;
    stream->owes_end = true;
}

static const char* last_name(uint32_t last) {
    switch (last) {
        case SL_SHM_LAST_KEEP:
            return "keep";
        case SL_SHM_LAST_PAD:
            return "pad";
        default:
            return "drop";
    }
}

/* At most 256 bytes, zero byte included, whatever the numbers are; the daemon reads it in
 * daemon/plan/position.cpp. */
static int write_state(const sl_stream* stream, char* text, size_t room) {
    const sl_shm_batch_header* header = &stream->map->header;
    return snprintf(text, room,
                    "{\"speedyloader_state\":%d,\"dataset\":\"%016" PRIx64 "\",\"samples\":%" PRIu64
                    ",\"seed\":%" PRIu64 ",\"shuffle\":%s,\"order\":%" PRIu32 ",\"global_batch\":%" PRIu64
                    ",\"last\":\"%s\",\"epoch\":%" PRIu64 ",\"batch\":%" PRIu64 "}",
                    SL_STATE_FORMAT, header->fingerprint, header->samples, header->seed,
                    (header->flags & SL_SHM_SHUFFLE) != 0 ? "true" : "false", header->order_version,
                    header->global_batch, last_name(header->last), stream->epoch, stream->batch);
}

sl_status sl_stream_state(const sl_stream* stream, char* json, size_t bytes) {
    if (stream == NULL || json == NULL) return sl_fail(SL_E_INVALID_ARGUMENT, 0, "a null argument");
    sl_status status = sl_check_owner(stream->pid);
    if (status != SL_OK) return status;
    if (stream->batch != 0 && (stream->map->header.flags & SL_SHM_ANY_MEMBERS) != 0) {
        return sl_fail(SL_E_UNSUPPORTED, 0,
                       "the stream is at batch %" PRIu64 " of epoch %" PRIu64
                       ": its batches hold what finished first (order.policy \"ready\", sample level), so it "
                       "has a position only between epochs",
                       stream->batch, stream->epoch);
    }
    char text[SL_STATE_MAX];
    int length = write_state(stream, text, sizeof text);
    if ((size_t)length >= bytes) {
        return sl_fail(
            SL_E_INVALID_ARGUMENT, 0,
            "the state has %d bytes with its zero byte, the buffer %zu: SL_STATE_MAX (%d) is enough",
            length + 1, bytes, SL_STATE_MAX);
    }
    memcpy(json, text, (size_t)length + 1);
    return SL_OK;
}
