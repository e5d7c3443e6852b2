/* A stream's shared memory as a daemon would make it, for tests that then spoil it: two slots of three rows,
 * "image" uint8 [3, 3, 7, 5] and "label" int64 [3]. One thread; a failure is a failed assertion. */
#ifndef SL_TESTS_CLIENT_SEGMENT_H
#define SL_TESTS_CLIENT_SEGMENT_H

#include "shm/layout.h"

enum { SEGMENT_SLOTS = 2, SEGMENT_ROWS = 3, SEGMENT_RING = 8 };

typedef struct segment {
    int batches_fd;
    int returns_fd;
    int wake_fd;
    int event_fd;
    int event_ringer;
    uint64_t bytes;
    uint8_t* memory; /* the batch segment, writable */
    sl_shm_return_page* returns;
    uint32_t published;
} segment;

void segment_make(segment* made);
void segment_free(segment* made);

static inline sl_shm_batch_header* segment_header(segment* made) {
    return (sl_shm_batch_header*)made->memory;
}

/* Against shrinking and growing, as the treaty wants it. */
void segment_seal(segment* made);

/* PUBLISH, with the futex and the event descriptor rung. */
void segment_publish(segment* made, const sl_shm_descriptor* descriptor);

#endif
