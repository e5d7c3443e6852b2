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

sl_status sl_memory_map(int fd, uint64_t stated, sl_memory** memory) {
    uint64_t bytes = 0;
    sl_status status = sl_check_file(fd, 1, "sample segment", &bytes);
    if (status != SL_OK) return status;
    if (bytes != stated) {
        return sl_fail(SL_E_PROTOCOL, 0, "the sample segment has %llu bytes, not %llu as stated",
                       (unsigned long long)bytes, (unsigned long long)stated);
    }
    sl_memory* made = calloc(1, sizeof *made);
    if (made == NULL) return sl_fail(SL_E_NO_MEMORY, ENOMEM, "no memory for a stream");
    /* Not populated: the crew shares the slots, and which this guest will write to nobody knows. */
    made->base = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (made->base == MAP_FAILED) {
        int error = errno;
        free(made);
        return sl_fail(SL_E_NO_MEMORY, error, "cannot map the sample segment (%llu bytes)",
                       (unsigned long long)bytes);
    }
    made->refs = 1;
    made->pid = getpid();
    made->bytes = bytes;
    *memory = made;
    return SL_OK;
}

sl_memory* sl_memory_keep(sl_memory* memory) {
    __atomic_fetch_add(&memory->refs, 1, __ATOMIC_RELAXED);
    return memory;
}

void sl_memory_release(sl_memory* memory) {
    if (memory == NULL || memory->pid != getpid()) return; /* in a forked child it stays the parent's */
    /* acq_rel: the last one unmaps after every other's last use. */
    if (__atomic_fetch_sub(&memory->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
    munmap(memory->base, (size_t)memory->bytes);
    free(memory);
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
    return NULL;
}

uint8_t* sl_slot_at(const sl_guest_stream* stream, uint64_t offset) {
    const sl_memory* memory = stream->memory;
    uint64_t bytes = stream->layout.slot_bytes;
    if (offset % SL_SHM_TENSOR_ALIGN != 0 || offset > memory->bytes || bytes > memory->bytes - offset)
        return NULL;
    return memory->base + offset;
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
