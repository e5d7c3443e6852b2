/* What the files of a guest worker share: its handle, the streams it was told of, the memory of their
 * samples. Never installed.
 *
 * guest.c waits for jobs and answers them, guest_messages.c hears what the daemon says of streams,
 * guest_slots.c knows the memory. One thread a handle; a memory may be let go of by any thread. */
#ifndef SL_CAPI_GUEST_H
#define SL_CAPI_GUEST_H

#include "internal.h"

/* Numbers of SampleErrorKind in shm/error.h. */
enum { SL_KIND_IO = 5, SL_KIND_RAISED = 16, SL_KIND_COLLATE = 17 };

/* A stream's memory, mapped: held by the stream and by sl_guest_hold. */
struct sl_memory {
    uint32_t refs; /* atomic */
    pid_t pid;
    uint8_t* samples; /* the sample segment; NULL: it is still to come */
    uint64_t samples_bytes;
    uint8_t* batches; /* the batch segment's slots; NULL: guests do not see them */
    uint64_t batches_bytes;
};

typedef struct sl_guest_stream {
    struct sl_guest_stream* next;
    uint64_t id;
    sl_shm_item_layout layout; /* private, checked copy */
    sl_memory* memory;
} sl_guest_stream;

struct sl_guest {
    pid_t pid;
    sl_client* client;
    int wake_fd; /* rings the daemon */
    sl_shm_worker_channel* channel;
    uint32_t job_head;
    uint32_t completion_tail;
    uint32_t messages_seen;
    sl_guest_stream* streams;
    sl_status finished; /* SL_OK, or the error that ended it */
    char why[512];

    /* The job at hand. Its stream stays: messages are not heard before it is answered. */
    bool at_hand;
    sl_shm_job job;
    const sl_guest_stream* stream;
    uint8_t* slot;    /* of the samples */
    uint8_t* batch;   /* slot of the batches; NULL: the item goes into `slot` as a whole */
    const void** row; /* to collate: the rows, and how long each is; room for row_room of them */
    uint64_t* row_bytes;
    uint32_t rows;
    uint32_t row_room;
    uint64_t token; /* of the job at hand, or the last one */
    pid_t thread;   /* that was given the job */
    sl_time begin;
    sl_time cpu; /* the thread's CPU time then */
};

/* guest_slots.c */
sl_memory* sl_memory_new(void);
sl_status sl_memory_map_samples(sl_memory* memory, int fd, uint64_t stated);
sl_status sl_memory_map_batches(sl_memory* memory, int fd, uint64_t stated, const sl_shm_item_layout* layout);
sl_memory* sl_memory_keep(sl_memory* memory);
/* What is wrong with a layout, or NULL. */
const char* sl_layout_fault(const sl_shm_item_layout* layout);
/* NULL: the daemon named a place outside the stream's memory. */
uint8_t* sl_slot_at(const sl_guest_stream* stream, uint64_t offset);
uint8_t* sl_batch_at(const sl_guest_stream* stream, const sl_shm_place* place);
/* Where field i of the job at hand lies. */
uint8_t* sl_field_at(const sl_guest* guest, uint32_t i);
void sl_slot_succeeded(uint8_t* slot, uint64_t payload_bytes);
void sl_slot_failed(const sl_guest_stream* stream, uint8_t* slot, const char* text);
/* The end of a text that fits into `room` bytes, from a character's first byte. */
const char* sl_text_end(const char* text, size_t room);

static inline bool sl_collates(const sl_guest* guest) {
    return guest->job.place.kind == SL_SHM_PLACE_COLLATE;
}

/* guest_collate.c */
/* Finds the rows of the job at hand. false: the daemon named a place outside its segments, or there is no
 * memory for a list of so many. */
bool sl_rows_gather(sl_guest* guest);
void sl_rows_free(sl_guest* guest);
/* Writes the end of a text where the batch would be; its length. */
uint64_t sl_collate_failed(const sl_guest* guest, const char* text);

/* guest_messages.c */
sl_status sl_guest_greet(sl_guest* guest, uint64_t crew, uint32_t workers, sl_time deadline);
/* Handles every message that is there. SL_E_DISCONNECTED: the daemon has gone. */
sl_status sl_guest_hear(sl_guest* guest);
const sl_guest_stream* sl_guest_find(const sl_guest* guest, uint64_t stream_id);
void sl_guest_forget_all(sl_guest* guest);

#endif
