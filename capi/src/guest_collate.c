/* Batches that a guest collates: which rows there are, and where it says why it could not.
 *
 * Called by guest.c on the guest's thread. The rows lie in the batch segment, where the crew's guests and the
 * daemon have put them; the daemon has written which of them are valid, and how long, before it gave the job
 * (JOB). Other guests may write there too, so each number is read once and bounded. */
#include <stdlib.h>
#include <string.h>

#include "guest.h"

static bool make_room(sl_guest* guest, uint32_t rows) {
    if (rows <= guest->row_room) return true;
    sl_rows_free(guest);
    guest->row = calloc(rows, sizeof *guest->row);
    guest->row_bytes = calloc(rows, sizeof *guest->row_bytes);
    if (guest->row == NULL || guest->row_bytes == NULL) {
        sl_rows_free(guest);
        return false;
    }
    guest->row_room = rows;
    return true;
}

void sl_rows_free(sl_guest* guest) {
    free(guest->row);
    free(guest->row_bytes);
    guest->row = NULL;
    guest->row_bytes = NULL;
    guest->row_room = 0;
}

bool sl_rows_gather(sl_guest* guest) {
    const sl_shm_item_layout* layout = &guest->stream->layout;
    uint32_t rows = guest->job.place.row;
    guest->rows = 0;
    if (layout->collated_bytes == 0 || rows > layout->rows || !make_room(guest, rows)) return false;
    const uint8_t* valid = guest->batch + layout->valid_offset;
    const uint64_t* lengths = (const uint64_t*)(guest->batch + layout->lengths_offset);
    for (uint32_t i = 0; i < rows; i++) {
        if (__atomic_load_n(&valid[i], __ATOMIC_RELAXED) == 0) continue;
        uint64_t length = sl_shm_load_relaxed_u64(&lengths[i]);
        uint64_t most = layout->field[0].bytes;
        guest->row[guest->rows] = guest->batch + layout->row_offset[0] + i * most;
        guest->row_bytes[guest->rows++] = length < most ? length : most;
    }
    return true;
}

uint64_t sl_collate_failed(const sl_guest* guest, const char* text) {
    const sl_shm_item_layout* layout = &guest->stream->layout;
    uint64_t room =
        layout->collated_bytes < SL_SHM_ITEM_TEXT_MAX ? layout->collated_bytes : SL_SHM_ITEM_TEXT_MAX;
    const char* kept = sl_text_end(text, (size_t)room);
    size_t length = strlen(kept);
    memcpy(guest->batch + layout->collated_offset, kept, length);
    return length;
}
