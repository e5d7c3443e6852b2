/* The treaty: every byte that two processes share, in plain C.
 *
 * Whoever maps a segment includes this file and nothing else crosses. Fields are fixed-width; one writer per
 * cache line (64 bytes); no pointers, no locks. Words that two processes touch at the same time are read and
 * written only through the sl_shm_* accessors below, each of which names its partner.
 *
 *   BATCH SEGMENT  (one per stream; the daemon writes, the client maps it read-only or privately. Of a stream of
 *                   items guests may write rows into the slots, and the daemon reads nothing of it back)
 *
 *     0            header page   sl_shm_batch_header: sizes, tensors; written once, `ready` last
 *     4096         live page     sl_shm_batch_live: publish count (futex word), sleep flag, stats
 *     8192         error page    sl_shm_stream_error: why the stream stopped, written once before its descriptor
 *     ring_offset  ring          sl_shm_descriptor[ring_capacity], power of two
 *     words_offset slot words    uint64[slot_count], for people and tools that look from outside
 *     info_offset  sample info   sl_shm_sample_info[slot_count][batch_size]
 *     slots_offset slots         slot_count x slot_bytes; tensor t of slot s lies at
 *                                slots_offset + s * slot_bytes + tensors[t].offset, 256-byte aligned
 *
 *   RETURN PAGE    (one per stream; the client writes, the daemon copies each word once and validates it)
 *
 *     0            sl_shm_return_page: one generation word per slot, the client's sleep flag and read count
 *
 *   WORKER CHANNEL (one per worker; each ring has one writer)
 *
 *     0            sl_shm_worker_channel: job ring (daemon writes), completion ring (worker writes)
 *
 *   INPUT SEGMENT  (one per user; the reader writes file bytes, workers map it read-only): no structure.
 *   SAMPLE SEGMENT (one per stream; workers write pixels, assembler threads read): sample_bytes x slots,
 *                   each on a 256-byte border. Never given to a client. In a stream of items guests write, and a
 *                   slot is sl_shm_item_header and then the fields as sl_shm_item_layout places them. An item
 *                   whose row has its place in a batch already is written there (sl_shm_place), but for the header
 *                   and what that layout does not put there.
 *
 * Hand-overs, each an acquire/release pair:
 *
 *   PUBLISH  daemon stores live.published (release), client loads it (acquire): descriptor, info and tensors
 *            of every batch below the count are visible.
 *   RETURN   client stores returns.generation[slot] (release), daemon loads it (acquire): the client has
 *            finished reading the slot.
 *   JOB      daemon stores jobs.tail (release), worker loads it (acquire): job entries and input bytes.
 *   TAKEN    worker stores jobs.head (release), daemon loads it (acquire): the job entry may be reused.
 *   DONE     worker stores completions.tail (release), daemon loads it (acquire): completion and pixels.
 *   REAPED   daemon stores completions.head (release), worker loads it (acquire): the entry may be reused.
 *   CONTROL  daemon stores worker_channel.messages (release) after a control message, worker loads it (acquire)
 *            before each job and before it sleeps: so it looks at its socket only when something is there.
 *   READY    the creator stores header.ready (release) last; whoever maps loads it (acquire) first.
 *
 * Sleeping: a side that is about to sleep stores its sleep flag and then looks again; a side that has
 * published fences (seq_cst) and then reads the flag: one of the two sees the other (SLEEP pair). A system
 * call is made only when the flag is up. What is rung is a futex word, or a descriptor that the two sides share
 * only so far that neither can make the other block: O_NONBLOCK belongs to the open file description, so the
 * daemon never reads or writes one that a client or worker holds too. WAKE is an eventfd that only the other
 * side writes and the daemon watches edge-triggered; EVENT is one end of a datagram socket pair.
 */
#ifndef SL_SHM_LAYOUT_H
#define SL_SHM_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define SL_SHM_ASSERT(condition) static_assert(condition, #condition)
#else
#define SL_SHM_ASSERT(condition) _Static_assert(condition, #condition)
#endif

#define SL_SHM_MAGIC 0x3152444c59445053ULL /* "SPDYLDR1" */
#define SL_SHM_MAJOR 1
#define SL_SHM_MINOR 3 /* up with each member added at a struct's end or in a reserved place */
#define SL_SHM_READY 0x59444552u /* "REDY" */

#define SL_SHM_PAGE 4096u
#define SL_SHM_TENSOR_ALIGN 256u
#define SL_SHM_MAX_TENSORS 8u   /* in the header's first list */
#define SL_SHM_MORE_TENSORS 10u /* in its second */
#define SL_SHM_ALL_TENSORS (SL_SHM_MAX_TENSORS + SL_SHM_MORE_TENSORS)
#define SL_SHM_MAX_SLOTS 256u
#define SL_SHM_LANES 3u /* light, medium, heavy */

/* ---- accessors: the only way to touch a word that both sides use at the same time ---- */

static inline uint32_t sl_shm_load_acquire_u32(const uint32_t* word) {
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}
static inline uint64_t sl_shm_load_acquire_u64(const uint64_t* word) {
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}
static inline uint32_t sl_shm_load_relaxed_u32(const uint32_t* word) {
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}
static inline uint64_t sl_shm_load_relaxed_u64(const uint64_t* word) {
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}
static inline void sl_shm_store_release_u32(uint32_t* word, uint32_t value) {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}
static inline void sl_shm_store_release_u64(uint64_t* word, uint64_t value) {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}
static inline void sl_shm_store_relaxed_u32(uint32_t* word, uint32_t value) {
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
}
static inline void sl_shm_store_relaxed_u64(uint64_t* word, uint64_t value) {
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
}
/* SLEEP pair: a sequentially consistent exchange stands for store-then-fence on the sleeper's side and for
 * fence-then-load on the waker's side (a plain fence would do; ThreadSanitizer understands only this form). */
static inline void sl_shm_store_seq_cst_u32(uint32_t* word, uint32_t value) {
    __atomic_store_n(word, value, __ATOMIC_SEQ_CST);
}
static inline uint32_t sl_shm_load_seq_cst_u32(const uint32_t* word) {
    return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}
static inline void sl_shm_fence_seq_cst(void) {
#if defined(__SANITIZE_THREAD__)
    static uint32_t stand_in; /* TSan does not model fences: an exchange on a private word orders as well on x86 and ARM */
    __atomic_exchange_n(&stand_in, 1u, __ATOMIC_SEQ_CST);
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/* ---- slot words ---- */

/* A slot word: state (8 bits), lane (8), owner (16), generation (32). The daemon's private lease table is the
 * truth; these words let people and tools look from outside. */
enum { SL_SLOT_FREE = 0, SL_SLOT_FILLING = 1, SL_SLOT_READY = 2, SL_SLOT_LEASED = 3 };

static inline uint64_t sl_slot_word(uint32_t state, uint32_t lane, uint32_t owner, uint32_t generation) {
    return (uint64_t)(state & 0xffu) | ((uint64_t)(lane & 0xffu) << 8) | ((uint64_t)(owner & 0xffffu) << 16) |
           ((uint64_t)generation << 32);
}
static inline uint32_t sl_slot_state(uint64_t word) { return (uint32_t)(word & 0xffu); }
static inline uint32_t sl_slot_generation(uint64_t word) { return (uint32_t)(word >> 32); }

/* ---- batch segment ---- */

enum { SL_SHM_FLOAT32 = 0, SL_SHM_FLOAT16 = 1, SL_SHM_BFLOAT16 = 2, SL_SHM_UINT8 = 3, SL_SHM_INT64 = 4,
       SL_SHM_UINT64 = 5, SL_SHM_INT32 = 6 };

typedef struct sl_shm_tensor {
    char name[32];     /* zero-terminated */
    uint32_t dtype;    /* SL_SHM_* above */
    uint32_t ndim;     /* 1 to 4; shape[0] is the batch size (rows beyond a descriptor's count are void) */
    int64_t shape[4];  /* elements; row-major, packed */
    uint64_t offset;   /* bytes from the slot's start, a multiple of 256 */
    uint64_t bytes;
    uint64_t flags;    /* since 1.3: SL_SHM_TENSOR_... */
} sl_shm_tensor;
enum { SL_SHM_TENSOR_WHOLE = 1u /* of the batch and not of its rows: shape[0] is its own */ };
SL_SHM_ASSERT(sizeof(sl_shm_tensor) == 96);

typedef struct sl_shm_batch_header {
    uint64_t magic;
    uint16_t major;
    uint16_t minor;
    uint32_t header_bytes;   /* sizeof this struct in the daemon's build */
    uint64_t segment_bytes;  /* equals fstat's size */
    uint64_t boot_id;        /* random per daemon start */
    uint64_t stream_id;
    uint32_t slot_count;     /* at most SL_SHM_MAX_SLOTS */
    uint32_t ring_capacity;  /* power of two, greater than 2 x slot_count + 2 */
    uint32_t batch_size;
    uint32_t tensor_count;
    uint64_t slot_bytes;     /* multiple of SL_SHM_PAGE */
    uint64_t ring_offset;
    uint64_t words_offset;
    uint64_t info_offset;
    uint64_t slots_offset;   /* multiple of SL_SHM_PAGE */
    uint64_t batches_per_epoch;
    uint64_t first_epoch;
    uint64_t epochs;
    uint64_t samples;        /* in the dataset */
    uint32_t ready;          /* SL_SHM_READY, stored last (READY pair) */
    uint32_t reserved;
    sl_shm_tensor tensors[SL_SHM_MAX_TENSORS];
    /* Since 1.1: what a saved position says beside epoch and batch. */
    uint64_t first_batch;    /* index in first_epoch; the two are where the stream began */
    uint64_t fingerprint;    /* of the dataset */
    uint64_t seed;
    uint64_t global_batch;   /* batch size x world size */
    uint32_t order_version;  /* of the order's algorithm */
    uint32_t last;           /* SL_SHM_LAST_... */
    uint32_t flags;          /* SL_SHM_... below; unknown bits mean nothing */
    uint32_t reserved2;
    sl_shm_tensor more_tensors[SL_SHM_MORE_TENSORS]; /* since 1.3: those that `tensors` has no room for */
} sl_shm_batch_header;
enum { SL_SHM_LAST_DROP = 0, SL_SHM_LAST_KEEP = 1, SL_SHM_LAST_PAD = 2 };
enum {
    SL_SHM_SHUFFLE = 1u,     /* else samples come in the order of their ids */
    SL_SHM_ANY_MEMBERS = 2u  /* a batch holds what finished first (order.policy "ready", sample level) */
};
SL_SHM_ASSERT(offsetof(sl_shm_batch_header, tensors) == 136);
SL_SHM_ASSERT(offsetof(sl_shm_batch_header, first_batch) == 136 + 96 * SL_SHM_MAX_TENSORS);
SL_SHM_ASSERT(offsetof(sl_shm_batch_header, more_tensors) == 136 + 96 * SL_SHM_MAX_TENSORS + 48);
SL_SHM_ASSERT(sizeof(sl_shm_batch_header) == 136 + 96 * SL_SHM_ALL_TENSORS + 48);
SL_SHM_ASSERT(sizeof(sl_shm_batch_header) <= SL_SHM_PAGE);

/* Tensor i < tensor_count. */
static inline const sl_shm_tensor* sl_shm_tensor_at(const sl_shm_batch_header* header, uint32_t i) {
    return i < SL_SHM_MAX_TENSORS ? &header->tensors[i] : &header->more_tensors[i - SL_SHM_MAX_TENSORS];
}

/* What a stream has done so far. Each word is written by the daemon's conductor, relaxed; a reader sees each
 * word whole but the set not at one instant. */
typedef struct sl_shm_stats {
    uint64_t batches;               /* published */
    uint64_t samples;               /* delivered rows that are valid */
    uint64_t failed;                /* samples that could not be delivered */
    uint64_t substituted;           /* rows filled by another sample */
    uint64_t warnings;              /* decoded with a harmless defect */
    uint64_t retried;               /* decoded again because a worker died */
    uint64_t bytes_read;            /* file bytes */
    uint64_t decode_ns;             /* CPU time of workers on this stream's samples */
    uint64_t lane_samples[SL_SHM_LANES];
    uint64_t lane_decode_ns[SL_SHM_LANES];
    uint64_t class_errors;          /* samples whose actual cost belonged to another lane */
    uint64_t predicted;             /* samples that the next three words cover */
    uint64_t absolute_error_ppm;    /* sum over samples of |predicted - actual| / actual, in millionths */
    uint64_t predicted_ns;          /* sums */
    uint64_t actual_ns;
    uint64_t ring_full_ns;          /* time that finished work waited for a slot (the consumer is the bottleneck) */
} sl_shm_stats;

typedef struct sl_shm_batch_live {
    uint32_t published;   /* PUBLISH: descriptors written so far, modulo 2^32; the futex word */
    uint32_t closed;      /* 1: the daemon has ended this stream; no descriptor will follow */
    uint8_t pad0[56];
    uint32_t daemon_sleeps;  /* SLEEP pair: 1 while the conductor may be asleep; then a return must ring */
    uint8_t pad1[60];
    sl_shm_stats stats;
} sl_shm_batch_live;
SL_SHM_ASSERT(offsetof(sl_shm_batch_live, daemon_sleeps) == 64);
SL_SHM_ASSERT(offsetof(sl_shm_batch_live, stats) == 128);
SL_SHM_ASSERT(sizeof(sl_shm_batch_live) <= SL_SHM_PAGE);

enum {
    SL_DESCRIPTOR_BATCH = 1,
    SL_DESCRIPTOR_END_OF_EPOCH = 2,
    SL_DESCRIPTOR_END = 3,
    SL_DESCRIPTOR_ERROR = 4 /* the error page says why */
};

typedef struct sl_shm_descriptor {
    uint32_t kind;        /* SL_DESCRIPTOR_* */
    uint32_t slot;        /* BATCH only */
    uint32_t generation;  /* of the slot; with boot id and slot it names the lease */
    uint32_t count;       /* rows */
    uint64_t epoch;
    uint64_t batch;       /* index in the epoch */
    uint64_t step;        /* batches before this one since epoch 0: epoch x batches_per_epoch + batch */
    uint64_t reserved[3];
} sl_shm_descriptor;
SL_SHM_ASSERT(sizeof(sl_shm_descriptor) == 64);

typedef struct sl_shm_sample_info {
    uint64_t sample_id;
    uint64_t planned_id;   /* differs from sample_id where the row holds a substitute */
    uint32_t lane;         /* 0 light, 1 medium, 2 heavy */
    uint32_t valid;
    uint32_t predicted_us;
    uint32_t actual_us;    /* CPU time of decode and transforms */
} sl_shm_sample_info;
SL_SHM_ASSERT(sizeof(sl_shm_sample_info) == 32);

#define SL_SHM_PATH_MAX 1024u
#define SL_SHM_MESSAGE_MAX 512u

typedef struct sl_shm_stream_error {
    int32_t status;        /* public SL_E_... */
    uint32_t sample_kind;  /* sample error kind, 0 if the error is not one sample's */
    uint64_t sample_id;
    int64_t offset;        /* byte offset in the file or -1 */
    int32_t os_errno;
    uint32_t reserved;
    uint64_t epoch;
    uint64_t batch;
    char path[SL_SHM_PATH_MAX];
    char message[SL_SHM_MESSAGE_MAX];
} sl_shm_stream_error;
SL_SHM_ASSERT(sizeof(sl_shm_stream_error) <= SL_SHM_PAGE);

#define SL_SHM_LIVE_OFFSET SL_SHM_PAGE
#define SL_SHM_ERROR_OFFSET (2u * SL_SHM_PAGE)
#define SL_SHM_HEADER_BYTES (3u * SL_SHM_PAGE)

/* ---- return page ---- */

typedef struct sl_shm_return_page {
    uint32_t client_sleeps;  /* SLEEP pair: 1 while a thread waits on live.published */
    uint32_t wants_event;    /* 1 once the event descriptor has been asked for: ring it on every publish (it has
                              * been rung once from the start, for what was published before) */
    uint32_t consumed;       /* descriptors taken so far, modulo 2^32 */
    uint32_t reserved;
    /* Since 1.2, for the trace and the verdict; both are the client's word and count for nothing else. */
    uint64_t waited_ns;        /* time the client was without a batch after asking for one; waits that have ended */
    uint64_t waiting_since_ns; /* CLOCK_MONOTONIC: it asked and has had none since; 0: it does not wait */
    uint32_t reserved2[8];
    uint32_t generation[SL_SHM_MAX_SLOTS]; /* RETURN: the generation of the lease that has ended */
} sl_shm_return_page;
SL_SHM_ASSERT(offsetof(sl_shm_return_page, waited_ns) == 16);
SL_SHM_ASSERT(offsetof(sl_shm_return_page, generation) == 64);
SL_SHM_ASSERT(sizeof(sl_shm_return_page) <= SL_SHM_PAGE);

/* ---- items: what guests write into a sample slot ---- */

#define SL_SHM_NO_ITEM UINT64_MAX /* a position of the order that is nobody's: its row is zeros and not valid */
#define SL_SHM_MAX_FIELDS 16u
#define SL_SHM_FIELD_ALIGN 64u
#define SL_SHM_ITEM_TEXT_MAX 16384u /* of a failure's text */

/* Opens a slot. The guest writes it before DONE; the daemon reads each word once and bounds it. */
typedef struct sl_shm_item_header {
    uint64_t payload_bytes; /* opaque rows: bytes of the field; else 0 */
    uint64_t error_bytes;   /* of the UTF-8 text at SL_SHM_FIELD_ALIGN, if the item failed with `raised` */
    uint64_t reserved[6];
} sl_shm_item_header;
SL_SHM_ASSERT(sizeof(sl_shm_item_header) == SL_SHM_FIELD_ALIGN);

enum { SL_SHM_ITEM_OPAQUE = 1u /* field 0 holds any number of bytes up to its own */ };

typedef struct sl_shm_item_layout {
    uint32_t fields;
    uint32_t flags; /* SL_SHM_ITEM_... */
    uint64_t slot_bytes;
    struct {
        uint64_t offset; /* from the slot's begin, a multiple of SL_SHM_FIELD_ALIGN */
        uint64_t bytes;
    } field[SL_SHM_MAX_FIELDS];

    /* The slots of the batch segment, where guests are given it; else batch_slots and all below it are 0. */
    uint64_t slots_offset; /* a multiple of SL_SHM_PAGE: the segment is mapped from there */
    uint64_t batch_bytes;  /* of a batch slot, a multiple of SL_SHM_PAGE */
    uint32_t batch_slots;
    uint32_t rows;     /* of a batch slot */
    uint32_t in_place; /* bit i: field i of a row that has its place is written there, not into the sample slot */
    uint32_t reserved;
    uint64_t row_offset[SL_SHM_MAX_FIELDS]; /* of a field's first row in a batch slot, a multiple of
                                             * SL_SHM_FIELD_ALIGN; row r lies r x bytes of the field further */
    /* Batches that guests collate: tensors in a batch slot, 0 where there are none. */
    uint64_t valid_offset;    /* uint8 [rows]; the daemon has written it before the job */
    uint64_t lengths_offset;  /* uint64 [rows], of the opaque rows; likewise */
    uint64_t collated_offset; /* a multiple of SL_SHM_FIELD_ALIGN */
    uint64_t collated_bytes;  /* that the guest may write there */
} sl_shm_item_layout;
SL_SHM_ASSERT(sizeof(sl_shm_item_layout) == 16 + 16 * SL_SHM_MAX_FIELDS + 32 + 8 * SL_SHM_MAX_FIELDS + 32);

/* ---- worker channel ---- */

#define SL_SHM_JOBS 8u /* power of two */
#define SL_SHM_NO_OUTPUT UINT64_MAX /* as output_offset: a header job, see sl_shm_completion */
#define SL_SHM_SLEEPS 1u            /* daemon_sleeps: a sample's completion must ring */
#define SL_SHM_SLEEPS_LIGHTLY 2u    /* a header's too */

enum {
    SL_SHM_PLACE_NONE = 0,   /* the item goes into its sample slot */
    SL_SHM_PLACE_ROW = 1,    /* the fields of `in_place` go into the row */
    SL_SHM_PLACE_COLLATE = 2 /* no item: the batch's rows become one, beside them */
};

/* Which row of the batch segment a guest writes to. */
typedef struct sl_shm_place {
    uint32_t kind; /* SL_SHM_PLACE_... */
    uint32_t slot;
    uint32_t row; /* to collate: how many rows there are */
    uint32_t reserved;
} sl_shm_place;

typedef struct sl_shm_input {
    uint64_t offset; /* in the input segment */
    uint64_t bytes;
} sl_shm_input;

typedef struct sl_shm_job {
    uint64_t tag;            /* the daemon's; comes back with the completion */
    uint64_t stream_id;      /* which pipeline and sample segment */
    union {
        sl_shm_input input; /* a file's bytes */
        sl_shm_place place; /* in a stream of items */
    };
    uint64_t output_offset;  /* in the stream's sample segment; to collate: SL_SHM_NO_OUTPUT */
    uint64_t seed;           /* the key of the sample's draws */
    uint64_t epoch;
    uint64_t sample_id;      /* in a stream of items the item; to collate: the batch in its epoch */
} sl_shm_job;
SL_SHM_ASSERT(sizeof(sl_shm_job) == 64);

/* Of a header job only tag, format, width, height and progressive say something; width is 0 if a glance at the
   header does not tell. */
typedef struct sl_shm_completion {
    uint64_t tag;
    uint32_t error_kind;  /* 0: pixels are in place */
    uint32_t format;      /* what the leading bytes said */
    uint32_t width;       /* of the picture, pixels; 0 if unknown */
    uint32_t height;
    uint32_t warnings;
    uint32_t progressive;
    uint64_t cpu_ns;      /* thread CPU time spent */
    int64_t error_offset;
    uint32_t box[4];      /* x, y, width, height of the crop box drawn */
    uint32_t flip;
    uint32_t reserved;
    uint64_t begin_ns;    /* CLOCK_MONOTONIC: from taking the job up to being done with it */
    uint64_t end_ns;
    char message[160];    /* zero-terminated; empty if it went well */
    uint64_t written;     /* of a collated batch: its bytes, or those of the text that lies in their place; else 0 */
} sl_shm_completion;
SL_SHM_ASSERT(sizeof(sl_shm_completion) == 256);

typedef struct sl_shm_worker_channel {
    uint32_t job_tail;         /* JOB, daemon */
    uint32_t messages;         /* CONTROL, daemon: control messages sent so far */
    uint32_t calls;            /* futex word of the worker: counts jobs and control messages */
    uint8_t pad0[52];
    uint32_t job_head;         /* TAKEN, worker */
    uint32_t worker_sleeps;    /* SLEEP pair, worker */
    uint8_t pad1[56];
    uint32_t completion_tail;  /* DONE, worker */
    uint8_t pad2[60];
    uint32_t completion_head;  /* REAPED, daemon */
    uint32_t daemon_sleeps;    /* SLEEP pair, daemon: SL_SHM_SLEEPS... or 0 */
    uint8_t pad3[56];
    sl_shm_job jobs[SL_SHM_JOBS];
    sl_shm_completion completions[SL_SHM_JOBS];
} sl_shm_worker_channel;
SL_SHM_ASSERT(offsetof(sl_shm_worker_channel, job_head) == 64);
SL_SHM_ASSERT(offsetof(sl_shm_worker_channel, completion_tail) == 128);
SL_SHM_ASSERT(offsetof(sl_shm_worker_channel, completion_head) == 192);
SL_SHM_ASSERT(offsetof(sl_shm_worker_channel, jobs) == 256);

#ifdef __cplusplus
}
#endif

#endif /* SL_SHM_LAYOUT_H */
