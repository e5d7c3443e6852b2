/* What the files of a guest worker share: its handle, the streams it was told of, the memory of their
 * samples. Never installed.
 *
 * guest.c waits for jobs and answers them, guest_messages.c hears what the daemon says of streams,
 * guest_slots.c knows the memory. One thread a handle; a memory may be let go of by any thread. */
#ifndef SL_CAPI_GUEST_H
#define SL_CAPI_GUEST_H

#include "internal.h"

/* Numbers of SampleErrorKind in shm/error.h. */
enum { SL_KIND_IO = 5, SL_KIND_RAISED = 16 };

/* A sample segment, mapped: held by its stream and by sl_guest_hold. */
struct sl_memory {
    uint32_t refs; /* atomic */
    pid_t pid;
    uint8_t* base;
    uint64_t bytes;
};

typedef struct sl_guest_stream {
    struct sl_guest_stream* next;
    uint64_t id;
    sl_shm_item_layout layout; /* private, checked copy */
    sl_memory* memory;         /* NULL: announced, its segment is still to come */
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
    uint8_t* slot;
    uint64_t token; /* of the job at hand, or the last one */
    pid_t thread;   /* that was given the job */
    sl_time begin;
    sl_time cpu; /* the thread's CPU time then */
};

/* guest_slots.c */
sl_status sl_memory_map(int fd, uint64_t stated, sl_memory** memory);
sl_memory* sl_memory_keep(sl_memory* memory);
/* What is wrong with a layout, or NULL. */
const char* sl_layout_fault(const sl_shm_item_layout* layout);
/* NULL: the daemon named a place outside the stream's memory. */
uint8_t* sl_slot_at(const sl_guest_stream* stream, uint64_t offset);
void sl_slot_succeeded(uint8_t* slot, uint64_t payload_bytes);
void sl_slot_failed(const sl_guest_stream* stream, uint8_t* slot, const char* text);
/* The end of a text that fits into `room` bytes, from a character's first byte. */
const char* sl_text_end(const char* text, size_t room);

/* guest_messages.c */
sl_status sl_guest_greet(sl_guest* guest, uint64_t crew, uint32_t workers, sl_time deadline);
/* Handles every message that is there. SL_E_DISCONNECTED: the daemon has gone. */
sl_status sl_guest_hear(sl_guest* guest);
const sl_guest_stream* sl_guest_find(const sl_guest* guest, uint64_t stream_id);
void sl_guest_forget_all(sl_guest* guest);

#endif
