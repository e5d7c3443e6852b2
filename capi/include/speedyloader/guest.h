/* Guest workers: processes of a job's own that make a stream's items. A part of speedyloader.h, which includes
 * it and whose conventions it follows.
 *
 * A guest is a process of the job's own user that makes items: what a data set in the job's own language
 * gives for an index. All guests of one loader are a crew, named by a random number that the spec of its
 * streams has too (dataset.crew). A guest attaches, and then again and again takes a job, writes the fields
 * of the item into shared memory, and says that it is done or has failed. The daemon decides who makes which
 * item and when, and gathers the items into batches. If a guest dies, another one is given its job. */
#ifndef SPEEDYLOADER_GUEST_H
#define SPEEDYLOADER_GUEST_H

#include <speedyloader/speedyloader.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_guest sl_guest;   /* a guest worker's place in its crew */
typedef struct sl_memory sl_memory; /* a hold on the memory that a guest writes to */

enum { SL_GUEST_ITEM = 0, SL_GUEST_COLLATE = 1 };

/* One item to be made. The fields are those of the spec's `rows`, in their order, each on a 64-byte border,
 * and have what an earlier item left there.
 *
 * Where the spec has `collate`, a batch whose rows are done is a job too, of kind SL_GUEST_COLLATE: one
 * field, for what its rows become, of at most the spec's capacity. The payload of sl_guest_done says how long
 * it is. If it fails, the stream ends there with a sample error of kind "collate", whatever the policy. */
typedef struct sl_guest_job {
    uint32_t struct_size;
    uint32_t field_count;
    uint64_t index; /* of the item; to collate: of the batch in its epoch */
    uint64_t epoch;
    uint64_t seed;
    void* field[SL_MAX_FIELDS];          /* to write to until sl_guest_done or sl_guest_failed */
    uint64_t field_bytes[SL_MAX_FIELDS]; /* of dtype "bytes": how many there may be */
    uint64_t token;                      /* the library's */
    uint64_t stream;                     /* id, as in the status */
    uint32_t kind;                       /* SL_GUEST_... */
    uint32_t rows;                       /* to collate: how many are valid; only these are listed, in order */
    const void* const* row;              /* to read until sl_guest_done or sl_guest_failed */
    const uint64_t* row_bytes;
} sl_guest_job;

/* Makes this process a guest of the crew, which will have `workers` of them. Looks for the daemon as
 * sl_connect does, but starts none: where none is, SL_E_DISCONNECTED. Other errors: those of sl_connect;
 * SL_E_DENIED if the crew is another user's. Any thread. */
SL_API sl_status sl_guest_attach(const sl_connect_options* options, uint64_t crew, uint32_t workers,
                                 sl_guest** guest);

/* Waits for a job. A job that is neither done nor failed is given again at once, so a call whose result was
 * lost may be repeated. Errors: SL_E_DISCONNECTED if the daemon has gone or no longer wants this guest (its
 * crew's last client has gone), which a waiting guest notices within 0.3 s; SL_E_PROTOCOL, SL_E_NO_MEMORY;
 * after an error every call gives it again. One thread per handle. */
SL_API sl_status sl_guest_next(sl_guest* guest, int64_t timeout_ms, sl_guest_job* job);

/* The item is made. payload_bytes: how many bytes a field of dtype "bytes" has, or a collated batch; else 0.
 * What it cost is the CPU time of this thread since the job was given, or the time that passed where that is
 * more than twice as long. Errors: SL_E_INVALID_ARGUMENT if it is not the job at hand, or too large: then it
 * stays at hand. The memory of its fields may be a batch's, so nothing must be written there afterwards. One
 * thread per handle. */
SL_API sl_status sl_guest_done(sl_guest* guest, const sl_guest_job* job, uint64_t payload_bytes);

/* The item could not be made. text says why, for the report: UTF-8, zero-terminated; of one that is longer
 * than the item's slot or 16,384 bytes the end is kept, for that is where a traceback names the error. Errors
 * as sl_guest_done. One thread per handle. */
SL_API sl_status sl_guest_failed(sl_guest* guest, const sl_guest_job* job, const char* text);

/* Keeps the memory that the job's fields lie in mapped until sl_memory_release, also after the stream or the
 * guest has ended, so that a view that somebody kept too long reads and writes stale bytes instead of ending
 * the process. Errors: SL_E_INVALID_ARGUMENT if it is not the job at hand. One thread per handle. */
SL_API sl_status sl_guest_hold(sl_guest* guest, const sl_guest_job* job, sl_memory** memory);

/* Ends a hold; NULL is allowed. Any thread. */
SL_API void sl_memory_release(sl_memory* memory);

/* Leaves the crew; the job at hand is given to another guest. NULL is allowed. One thread per handle. */
SL_API void sl_guest_detach(sl_guest* guest);

#ifdef __cplusplus
}
#endif

#endif /* SPEEDYLOADER_GUEST_H */
