/* The memory that a guest writes items to: mapped when the daemon says so, checked before it is believed, and
 * unmapped when the stream is forgotten and nobody holds it any more.
 *
 * Called by the guest's other files on the guest's thread; sl_memory_release by any thread. Everything that
 * the daemon states (sizes, offsets) is checked against the file itself, so that no lie is a fault here. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guest.h"

sl_memory* sl_memory_new(void) {
    sl_memory* made = calloc(1, sizeof *made);
    if (made == NULL) return NULL;
    made->refs = 1;
    made->pid = getpid();
    return made;
}

/* Maps `bytes` from `offset` on, which the file must have. Not populated: the crew shares the slots, and
 * which of them this guest will write to nobody knows. */
static sl_status map_part(int fd, uint64_t stated, const char* what, uint64_t offset, uint64_t bytes,
                          uint8_t** at) {
    uint64_t size = 0;
    sl_status status = sl_check_file(fd, 1, what, &size);
    if (status != SL_OK) return status;
    if (size != stated) {
        return sl_fail(SL_E_PROTOCOL, 0, "the %s has %llu bytes, not %llu as stated", what,
                       (unsigned long long)size, (unsigned long long)stated);
    }
    if (offset > size || bytes > size - offset) {
        return sl_fail(SL_E_PROTOCOL, 0, "the %s of %llu bytes has no room for its slots", what,
                       (unsigned long long)size);
    }
    void* mapped = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
    if (mapped == MAP_FAILED) {
        return sl_fail(SL_E_NO_MEMORY, errno, "cannot map the %s (%llu bytes)", what,
                       (unsigned long long)bytes);
    }
    *at = mapped;
    return SL_OK;
}

sl_status sl_memory_map_samples(sl_memory* memory, int fd, uint64_t stated) {
    sl_status status = map_part(fd, stated, "sample segment", 0, stated, &memory->samples);
    if (status == SL_OK) memory->samples_bytes = stated;
    return status;
}

sl_status sl_memory_map_batches(sl_memory* memory, int fd, uint64_t stated,
                                const sl_shm_item_layout* layout) {
    uint64_t bytes = layout->batch_slots * layout->batch_bytes; /* bounded by sl_layout_fault */
    sl_status status = map_part(fd, stated, "batch segment", layout->slots_offset, bytes, &memory->batches);
    if (status == SL_OK) memory->batches_bytes = bytes;
    return status;
}

sl_memory* sl_memory_keep(sl_memory* memory) {
    __atomic_fetch_add(&memory->refs, 1, __ATOMIC_RELAXED);
    return memory;
}

void sl_memory_release(sl_memory* memory) {
    if (memory == NULL || memory->pid != getpid()) return; /* in a forked child it stays the parent's */
    /* acq_rel: the last one unmaps after every other's last use. */
    if (__atomic_fetch_sub(&memory->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
    if (memory->samples != NULL) munmap(memory->samples, (size_t)memory->samples_bytes);
    if (memory->batches != NULL) munmap(memory->batches, (size_t)memory->batches_bytes);
    free(memory);
}

/* Whether `count` things of `each` bytes lie in a batch slot from `offset` on. */
static bool lies_in_batch(const sl_shm_item_layout* layout, uint64_t offset, uint64_t count, uint64_t each) {
    return offset <= layout->batch_bytes && (each == 0 || count <= (layout->batch_bytes - offset) / each);
}

static const char* collated_fault(const sl_shm_item_layout* layout) {
    if (layout->collated_bytes == 0) return NULL;
    if ((layout->flags & SL_SHM_ITEM_OPAQUE) == 0) return "flag";
    if (!lies_in_batch(layout, layout->valid_offset, layout->rows, 1)) return "offset of what is valid";
    if (layout->lengths_offset % sizeof(uint64_t) != 0 ||
        !lies_in_batch(layout, layout->lengths_offset, layout->rows, sizeof(uint64_t))) {
        return "offset of lengths";
    }
    if (layout->collated_offset % SL_SHM_FIELD_ALIGN != 0 ||
        !lies_in_batch(layout, layout->collated_offset, 1, layout->collated_bytes)) {
        return "offset of a collated batch";
    }
    return NULL;
}

/* What is wrong with how rows lie in the batch segment, or NULL. */
static const char* batches_fault(const sl_shm_item_layout* layout) {
    if (layout->batch_slots == 0) {
        return layout->in_place != 0 || layout->collated_bytes != 0 ? "number of batches" : NULL;
    }
    if (layout->batch_slots > SL_SHM_MAX_SLOTS) return "number of batches";
    if (layout->slots_offset % SL_SHM_PAGE != 0 || layout->slots_offset > INT64_MAX) return "batch offset";
    if (layout->batch_bytes == 0 || layout->batch_bytes > INT64_MAX / SL_SHM_MAX_SLOTS) return "batch length";
    if (layout->rows == 0) return "number of rows";
    if (layout->in_place >> layout->fields != 0) return "field in place";
    for (uint32_t i = 0; i < layout->fields; i++) {
        if (layout->row_offset[i] % SL_SHM_FIELD_ALIGN != 0 ||
            !lies_in_batch(layout, layout->row_offset[i], layout->rows, layout->field[i].bytes)) {
            return "row offset";
        }
        if ((layout->in_place >> i & 1u) != 0 && layout->field[i].bytes % SL_SHM_FIELD_ALIGN != 0) {
            return "field in place";
        }
    }
    return collated_fault(layout);
}

const char* sl_layout_fault(const sl_shm_item_layout* layout) {
    if (layout->fields == 0 || layout->fields > SL_SHM_MAX_FIELDS) return "number of fields";
    if ((layout->flags & ~SL_SHM_ITEM_OPAQUE) != 0) return "flag";
    if ((layout->flags & SL_SHM_ITEM_OPAQUE) != 0 && layout->fields != 1) return "number of fields";
    if (layout->slot_bytes < sizeof(sl_shm_item_header)) return "slot length";
    for (uint32_t i = 0; i < layout->fields; i++) {
        uint64_t offset = layout->field[i].offset;
        if (offset < sizeof(sl_shm_item_header) || offset % SL_SHM_FIELD_ALIGN != 0 ||
            offset > layout->slot_bytes) {
            return "field offset";
        }
        if (layout->field[i].bytes > layout->slot_bytes - offset) return "field length";
    }
    return batches_fault(layout);
}

uint8_t* sl_slot_at(const sl_guest_stream* stream, uint64_t offset) {
    const sl_memory* memory = stream->memory;
    uint64_t bytes = stream->layout.slot_bytes;
    if (offset % SL_SHM_TENSOR_ALIGN != 0 || offset > memory->samples_bytes ||
        bytes > memory->samples_bytes - offset) {
        return NULL;
    }
    return memory->samples + offset;
}

uint8_t* sl_batch_at(const sl_guest_stream* stream, const sl_shm_place* place) {
    const sl_shm_item_layout* layout = &stream->layout;
    if (place->slot >= layout->batch_slots) return NULL;
    return stream->memory->batches + place->slot * layout->batch_bytes;
}

uint8_t* sl_field_at(const sl_guest* guest, uint32_t i) {
    const sl_shm_item_layout* layout = &guest->stream->layout;
    if (guest->batch == NULL || (layout->in_place >> i & 1u) == 0)
        return guest->slot + layout->field[i].offset;
    return guest->batch + layout->row_offset[i] + guest->job.place.row * layout->field[i].bytes;
}

void sl_slot_succeeded(uint8_t* slot, uint64_t payload_bytes) {
    const sl_shm_item_header header = {.payload_bytes = payload_bytes};
    memcpy(slot, &header, sizeof header);
}

const char* sl_text_end(const char* text, size_t room) {
    size_t length = strlen(text);
    if (length <= room) return text;
    text += length - room;
    while (((unsigned char)*text & 0xc0) == 0x80)
        text++;
    return text;
}

void sl_slot_failed(const sl_guest_stream* stream, uint8_t* slot, const char* text) {
    uint64_t room = stream->layout.slot_bytes - sizeof(sl_shm_item_header);
    if (room > SL_SHM_ITEM_TEXT_MAX) room = SL_SHM_ITEM_TEXT_MAX;
    const char* kept = sl_text_end(text, (size_t)room);
    const sl_shm_item_header header = {.error_bytes = strlen(kept)};
    memcpy(slot, &header, sizeof header);
    memcpy(slot + sizeof header, kept, (size_t)header.error_bytes);
}
