/* SpeedyLoader: batches of decoded samples from the host's loader daemon, zero-copy, in plain C.
 *
 * What it does: attaches to a daemon (or starts a private one), opens a stream described by a JSON spec, and
 * hands out leases on batches that lie in shared memory. What it does not do: it decodes nothing, copies no
 * pixels, starts no threads, installs no signal or exit handlers, allocates nothing per batch, and never
 * exits, aborts or prints. Whoever uses it includes this header and links -lspeedyloader.
 *
 * Conventions
 *
 *  1. Status. Every call that can fail returns sl_status: SL_OK is 0, states (an epoch has ended, the time is
 *     up) are positive, errors are negative. After an error sl_last_error gives the calling thread's record.
 *  2. Ownership. A handle belongs to the caller until its closing call: sl_disconnect, sl_close,
 *     sl_batch_release. They may come in any order: a batch stays readable until its own release, even after
 *     its stream and its client are gone. Closing NULL is SL_OK. Text from the library is freed by sl_free
 *     where the comment says so.
 *  3. Threads. Each function's comment ends with one of: "any thread" (also at the same time on one handle),
 *     or "one thread per handle" (calls on one handle must not overlap).
 *  4. Sizes. Structs open with struct_size; set it to sizeof the struct. Older, shorter structs are accepted;
 *     newer, longer ones too as long as what this library does not know is zero.
 *  5. Time-outs are milliseconds. SL_WAIT_FOREVER waits without end, 0 polls. In option structs 0 is the
 *     default that the member's comment names. Signals do not end a wait.
 *  6. Text is UTF-8 and zero-terminated. Integers have fixed width. Enums are closed and 32 bits wide.
 *  7. Every tensor is read-only: the memory is mapped without write permission, so a write is a fault. After
 *     sl_batch_allow_writes a write changes what this process sees until the release, and nothing else.
 *  8. Fork. In a child process old handles give SL_E_FORKED and touch nothing; the child may connect anew.
 *  9. Errors that stop a stream come at the batch they belong to, and again at every later sl_next; the
 * handle stays usable for sl_stream_report, sl_stream_stats and sl_close.
 * 10. Lost daemons. Batches at hand stay valid until they are released, whatever becomes of the daemon. When
 * a stream has nothing left from it, sl_next connects to the next daemon at the same place (a private one is
 *     started again), opens the stream there at its position, and goes on with the batch that is due.
 *     sl_connect_options.reconnect_ms bounds how long a daemon is looked for, the call's own time-out how
 * long a call takes: it says SL_TIMEOUT, and the next call goes on looking. Then, and where it was switched
 * off, SL_E_DISCONNECTED.
 */
#ifndef SPEEDYLOADER_SPEEDYLOADER_H
#define SPEEDYLOADER_SPEEDYLOADER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SL_API __attribute__((visibility("default")))

#define SL_WAIT_FOREVER (-1)
#define SL_NO_RECONNECT (-2)

typedef enum sl_status {
    SL_OK = 0,
    SL_END_OF_EPOCH = 1,          /* all batches of an epoch have been given; the next call goes on */
    SL_END = 2,                   /* all epochs have been given; said again at every later call */
    SL_TIMEOUT = 3,               /* the time is up; nothing was taken */
    SL_NOT_READY = 4,             /* reserved for asynchronous transfers */
    SL_E_INVALID_ARGUMENT = -1,   /* a call was wrong: null, size, closed handle, wrong level */
    SL_E_NO_MEMORY = -2,          /* this process could not allocate or map */
    SL_E_DISCONNECTED = -3,       /* the daemon has gone or has ended the connection */
    SL_E_PROTOCOL = -4,           /* the daemon sent something that breaks the treaty */
    SL_E_VERSION = -5,            /* daemon and library speak different major versions */
    SL_E_FORKED = -6,             /* the handle belongs to the parent process */
    SL_E_NO_DAEMON = -7,          /* nobody answers and no daemon could be started */
    SL_E_DENIED = -8,             /* this user may not do that */
    SL_E_NOT_FOUND = -9,          /* no such tensor, file or folder */
    SL_E_SPEC = -10,              /* the spec is wrong; the message names the key */
    SL_E_DATASET = -11,           /* the data set cannot be used */
    SL_E_BUDGET = -12,            /* more memory asked for than there is; the message has the numbers */
    SL_E_SAMPLE = -13,            /* a sample failed and errors.policy is "fail" */
    SL_E_TOO_MANY_FAILURES = -14, /* errors.max_failures or errors.max_rate was passed */
    SL_E_IO = -15,                /* the operating system refused; os_errno says how */
    SL_E_INTERNAL = -16,          /* a mistake in SpeedyLoader */
    SL_E_UNSUPPORTED = -17,       /* known, but not by this version or on this machine */
    SL_STATUS_32_BITS = INT32_MAX
} sl_status;

typedef enum sl_dtype {
    SL_FLOAT32 = 0,
    SL_FLOAT16 = 1,
    SL_BFLOAT16 = 2,
    SL_UINT8 = 3,
    SL_INT64 = 4,
    SL_UINT64 = 5,
    SL_INT32 = 6,
    SL_DTYPE_32_BITS = INT32_MAX
} sl_dtype;

typedef enum sl_level {
    SL_LEVEL_BATCH = 0,  /* sl_next gives batches */
    SL_LEVEL_SAMPLE = 1, /* sl_next_sample gives single samples in the order they finish */
    SL_LEVEL_32_BITS = INT32_MAX
} sl_level;

enum { SL_DEVICE_CPU = 1 }; /* DLPack's number */
enum { SL_MAX_DIMS = 8, SL_LANES = 3, SL_MAX_FIELDS = 16 };
enum { SL_STATE_MAX = 320 }; /* bytes that hold every text of sl_stream_state, its zero byte included */

typedef struct sl_client sl_client; /* a connection to a daemon */
typedef struct sl_stream sl_stream; /* an open data set with its pipeline and order */
typedef struct sl_batch sl_batch;   /* a lease on one batch */

enum {
    SL_CONNECT_NO_SPAWN = 1u, /* never start a private daemon */
    SL_CONNECT_PRIVATE = 2u   /* only this user's private daemon: pass over every socket path */
};

typedef struct sl_connect_options {
    uint32_t struct_size;
    uint32_t flags;      /* SL_CONNECT_... */
    const char* socket;  /* path of a daemon's socket; NULL: see sl_connect */
    const char* program; /* name shown in the daemon's status; NULL: the program's own */
    int64_t timeout_ms;  /* 0: 10,000 */
    /* How long sl_next looks for another daemon where this one has gone: 0: 5,000; SL_WAIT_FOREVER; or
     * SL_NO_RECONNECT. One that lets us in has timeout_ms from then on, also if it is only being started. */
    int64_t reconnect_ms;
} sl_connect_options;

enum {
    SL_OPEN_ALLOW_CHANGE = 1u /* options->state may be of another data set, or of what this one was before */
};

#define SL_NO_ITEM UINT64_MAX

/* An order of items, for a spec whose dataset is of kind "items". Read during sl_open only. */
typedef struct sl_items {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t count;        /* positions: dataset.count of the spec */
    const uint64_t* index; /* the item of each; SL_NO_ITEM: none, the row stays zero and is not valid */
    const double* hints;   /* what each costs, in any unit, finite and above 0; NULL: nothing is known */
} sl_items;

typedef struct sl_open_options {
    uint32_t struct_size;
    uint32_t slots; /* batches that may lie ready or leased at once; 0: the daemon chooses */
    sl_level level;
    uint32_t flags;        /* SL_OPEN_... */
    int64_t timeout_ms;    /* 0: 600,000, because the first opening of a folder scans it */
    const char* state;     /* text of sl_stream_state: begin there; NULL or "": at the first batch */
    const sl_items* items; /* needed by a spec of kind "items", and allowed with no other; NULL: none */
} sl_open_options;

typedef struct sl_tensor {
    uint32_t struct_size;
    sl_dtype dtype;
    const void* data; /* on a 256-byte border; valid until sl_batch_release */
    uint64_t bytes;   /* of the rows at hand */
    int32_t ndim;
    int32_t device_type; /* SL_DEVICE_CPU */
    int32_t device_id;
    uint32_t reserved;
    int64_t shape[SL_MAX_DIMS];   /* elements; shape[0] is the batch's row count */
    int64_t strides[SL_MAX_DIMS]; /* elements, as in DLPack */
} sl_tensor;

typedef struct sl_batch_info {
    uint32_t struct_size;
    uint32_t count; /* rows */
    uint64_t epoch;
    uint64_t batch; /* index in the epoch */
    uint64_t step;  /* batches before this one since epoch 0, also those before an opened state */
} sl_batch_info;

typedef struct sl_sample_info {
    uint32_t struct_size;
    uint32_t lane;       /* 0 light, 1 medium, 2 heavy */
    uint64_t sample_id;  /* whose data the row holds */
    uint64_t planned_id; /* whose place it is; differs from sample_id for a substitute */
    uint32_t valid;      /* 0: padding or placeholder */
    uint32_t predicted_us;
    uint32_t actual_us; /* CPU time of decoding and transforms, microseconds */
    uint32_t reserved;
} sl_sample_info;

/* Counted since the stream was opened. Each number is whole; the set is not taken at one instant. */
typedef struct sl_stats {
    uint32_t struct_size;
    uint32_t ready;                  /* batches published and not yet taken */
    uint64_t batches;                /* published */
    uint64_t samples;                /* valid rows in them */
    uint64_t failed;                 /* samples that could not be delivered */
    uint64_t substituted;            /* rows filled by another sample */
    uint64_t warnings;               /* decoded with a harmless defect */
    uint64_t retried;                /* decoded again because a worker died */
    uint64_t bytes_read;             /* file bytes */
    uint64_t decode_ns;              /* workers' CPU time on this stream */
    uint64_t lane_samples[SL_LANES]; /* light, medium, heavy */
    uint64_t lane_decode_ns[SL_LANES];
    uint64_t class_errors;       /* samples whose real cost belonged to another lane */
    uint64_t predicted;          /* samples that the next three numbers cover */
    uint64_t absolute_error_ppm; /* sum of |predicted - actual| / actual, in millionths */
    uint64_t predicted_ns;       /* sums */
    uint64_t actual_ns;
    uint64_t ring_full_ns; /* time that finished work waited for a slot: the consumer is the bottleneck */
    uint64_t wait_ns;      /* time this client waited in sl_next: loading is the bottleneck */
    uint64_t waits;        /* calls of sl_next that had to wait */
    uint64_t reconnects;   /* daemons that were lost and followed by another one; the sums go over all */
    uint64_t lost;         /* 1: sl_next has met the daemon's end, and found no other one yet */
} sl_stats;

typedef struct sl_stream_info {
    uint32_t struct_size;
    uint32_t batch_size;
    uint64_t batches_per_epoch;
    uint64_t samples; /* in the data set; of a mix, in an epoch */
    uint64_t epochs;
    uint64_t first_epoch; /* of the first batch that this stream gives; equals epochs if it gives none */
    uint32_t slots;
    sl_level level;
    uint64_t first_batch; /* index in first_epoch of that batch; 0 unless a state was opened */
} sl_stream_info;

typedef struct sl_error {
    uint32_t struct_size;
    sl_status code;
    int32_t os_errno;     /* 0: none */
    uint32_t sample_kind; /* sl_sample_kind_name; 0: the error is not one sample's */
    uint64_t sample_id;
    int64_t offset; /* byte offset in the file; -1: none */
    char message[512];
    char path[1024]; /* of the sample; empty if it is not one sample's */
} sl_error;

typedef enum sl_trace_kind {
    SL_TRACE_OPEN = 1,    /* a file is opened and asked for its size; amount: its bytes */
    SL_TRACE_READ = 2,    /* its bytes are read; amount: how many came */
    SL_TRACE_DECODE = 3,  /* a worker decodes and transforms; track: worker; amount: CPU ns */
    SL_TRACE_ROW = 4,     /* a row of a batch is written; track: thread */
    SL_TRACE_PUBLISH = 5, /* an instant: a whole batch is the client's; amount: rows */
    SL_TRACE_LEASE = 6,   /* from a batch's publication to its return */
    SL_TRACE_WAIT = 7,    /* a client waited in sl_next */
    SL_TRACE_FULL = 8,    /* finished work waited for a batch to be returned */
    SL_TRACE_EPOCH_END = 9,
    SL_TRACE_COLLATE = 10, /* a guest worker collates a batch; track and amount as DECODE */
    SL_TRACE_KIND_32_BITS = INT32_MAX
} sl_trace_kind;

/* A span that has ended; an instant's begin is its end. */
typedef struct sl_trace_event {
    uint64_t begin_ns; /* CLOCK_MONOTONIC */
    uint64_t end_ns;
    uint64_t sample_id; /* OPEN, READ, DECODE, ROW */
    uint64_t step;      /* batches before its batch since epoch 0 */
    uint64_t amount;    /* see the kind */
    uint32_t stream;    /* id, as in the status */
    uint32_t epoch;
    uint32_t batch;        /* index in the epoch */
    uint32_t predicted_us; /* DECODE */
    uint16_t track;        /* worker or assembler thread, from 0 */
    uint8_t kind;          /* SL_TRACE_...; others may come */
    uint8_t lane;          /* READ, DECODE, ROW: 0 light, 1 medium, 2 heavy, as predicted */
    uint32_t error;        /* OPEN, READ: errno; DECODE: sl_sample_kind_name; 0: none */
} sl_trace_event;

/* The last seconds of a daemon, for all its streams. */
typedef struct sl_trace {
    uint32_t struct_size;
    uint32_t workers;
    uint32_t assemblers; /* threads that write rows */
    uint32_t reserved;
    uint64_t count;
    uint64_t overwritten;   /* events since the daemon's start that it does not hold any more */
    uint64_t now_ns;        /* CLOCK_MONOTONIC, when the trace was taken */
    sl_trace_event* events; /* for sl_free; in no order; NULL if there is none */
} sl_trace;

/* Connects to a daemon. Tried in this order: options->socket; the environment's SPEEDYLOADER_SOCKET; the
 * system daemon's /run/speedyloader/speedyloader.sock if it lets this user in; this user's private daemon,
 * which is started if it does not run and leaves by itself after its last client. A path that is given is the
 * only one tried. Options may be NULL. The private daemon's program is SPEEDYLOADER_DAEMON, else
 * speedyloaderd beside the library (../bin, then the same folder), else on PATH. SPEEDYLOADER_DAEMON_ARGS
 * (words separated by blanks) is added to its command line, SPEEDYLOADER_LOG names a file that its messages
 * are appended to, and SPEEDYLOADER_PRIVATE_NAME (at most 40 characters) sets one private daemon apart from
 * this user's others. Errors: SL_E_NO_DAEMON, SL_E_DENIED (names uid and socket), SL_E_VERSION,
 * SL_E_DISCONNECTED, SL_E_NO_MEMORY, SL_E_IO; SL_TIMEOUT if the daemon does not answer in time. Any thread.
 */
SL_API sl_status sl_connect(const sl_connect_options* options, sl_client** client);

/* Ends the connection and frees the handle. Streams still open give SL_E_DISCONNECTED, connect to nobody, and
 * still want their sl_close. Never waits. One thread per handle. */
SL_API sl_status sl_disconnect(sl_client* client);

/* Opens a stream. spec: JSON, `bytes` long, with absolute paths. Options may be NULL. With options->state the
 * first batch is the one that the state's stream would have given next, and so is every later one, with any
 * number of workers and slots, and on as many ranks as keep the global batch (batch.size x world_size). A
 * state that does not fit the spec or the data set is SL_E_SPEC; the message names each difference. With
 * SL_OPEN_ALLOW_CHANGE the data set may have changed: the stream begins at the same batch of the same epoch
 * of the data set as it is now, whose order is another; SL_E_SPEC if there is no such batch. Errors:
 * SL_E_SPEC, SL_E_DATASET, SL_E_NOT_FOUND, SL_E_DENIED, SL_E_BUDGET, SL_E_UNSUPPORTED, SL_E_DISCONNECTED,
 * SL_E_PROTOCOL, SL_E_NO_MEMORY, SL_E_IO; SL_TIMEOUT: nothing was opened. Other requests of the client are
 * answered meanwhile. Any thread. */
SL_API sl_status sl_open(sl_client* client, const char* spec, size_t bytes, const sl_open_options* options,
                         sl_stream** stream);

/* Ends a stream and frees the handle; leased batches stay readable. Waits at most a second for the daemon's
 * word. One thread per handle. */
SL_API sl_status sl_close(sl_stream* stream);

/* Takes the next batch. SL_OK: *batch is a lease that wants sl_batch_release. SL_END_OF_EPOCH, SL_END,
 * SL_TIMEOUT: *batch is NULL. A stream whose every slot is leased gives SL_TIMEOUT until one is released.
 * Errors: the stream's own (SL_E_SAMPLE, SL_E_TOO_MANY_FAILURES, ...), SL_E_PROTOCOL, SL_E_INVALID_ARGUMENT
 * on a sample-level stream. SL_E_DISCONNECTED if no daemon was found in time: the next call looks again; or
 * for good, if the stream has no position (see sl_stream_state), or if three daemons in a row were lost
 * before they gave the batch that is due. After a lost daemon also what sl_open says to a state: SL_E_SPEC if
 * the data set has changed, SL_E_BUDGET, ... One thread per handle. */
SL_API sl_status sl_next(sl_stream* stream, int64_t timeout_ms, sl_batch** batch);

/* The same for a stream opened with SL_LEVEL_SAMPLE: *batch holds one row. info may be NULL. One thread per
 * handle. */
SL_API sl_status sl_next_sample(sl_stream* stream, int64_t timeout_ms, sl_batch** batch,
                                sl_sample_info* info);

/* A tensor of the batch by name: "image", "label" (int64), "sample_id" (uint64), "valid" (uint8), ...
 * Errors: SL_E_NOT_FOUND (the message lists the names), SL_E_INVALID_ARGUMENT. Any thread. */
SL_API sl_status sl_batch_tensor(const sl_batch* batch, const char* name, sl_tensor* tensor);

/* How many tensors a batch has. Any thread. */
SL_API sl_status sl_batch_tensor_count(const sl_batch* batch, uint32_t* count);

/* A tensor by index, in the order that every batch of the stream shares; *name (may be NULL) lives as long as
 * the batch. Errors: SL_E_NOT_FOUND. Any thread. */
SL_API sl_status sl_batch_tensor_at(const sl_batch* batch, uint32_t index, const char** name,
                                    sl_tensor* tensor);

/* Which batch this is. Any thread. */
SL_API sl_status sl_batch_get_info(const sl_batch* batch, sl_batch_info* info);

/* What is known of one row: id, lane, predicted and real cost. Errors: SL_E_NOT_FOUND beyond the last row.
 * Any thread. */
SL_API sl_status sl_batch_sample(const sl_batch* batch, uint32_t row, sl_sample_info* info);

/* From now on this process may write to the batch's tensors (cast the const of sl_tensor.data away). A page
 * that is written becomes this process's own copy: nobody else sees it, and it is dropped with the lease, so
 * that later batches are as if nothing had been written. A forked child sees what was written before the
 * fork; then each has its own. Calling it again does nothing. What 40 MB cost: 1 to 15 ms the first time for
 * a slot of the ring; 0.1 to 0.5 ms at each later release of that slot, or nothing if the process had no page
 * fault during the lease; a write what one to fresh memory costs. The slot stays writable: a write to a later
 * batch in it is dropped as well, and no fault. No device driver may pin the memory, for it would go on using
 * pages that are dropped. Errors: SL_E_INVALID_ARGUMENT if the lease has ended, SL_E_NO_MEMORY, SL_E_IO;
 * SL_E_UNSUPPORTED if this machine's pages are larger than the daemon's. After an error a write is a fault as
 * before. Any thread. */
SL_API sl_status sl_batch_allow_writes(sl_batch* batch);

/* Ends the lease: the tensors must not be read any more. In any order, also after sl_close and sl_disconnect.
 * Errors: SL_E_INVALID_ARGUMENT if the lease had ended already, as long as the stream is open and has the
 * daemon that gave the batch (later the handle is gone with its ring); SL_E_IO if written pages cannot be
 * dropped: the lease goes on. Any thread. */
SL_API sl_status sl_batch_release(sl_batch* batch);

/* A descriptor for event loops: readable when sl_next may have something to say, also that the daemon has
 * gone (and, until there is another one, fifty times a second: then sl_next looks for one). Poll it, then
 * call sl_next with time-out 0 until it says SL_TIMEOUT, which makes it unreadable again. Never read it or
 * close it; sl_close does. One thread per handle. */
SL_API sl_status sl_stream_event_fd(sl_stream* stream, int* fd);

/* Counters of the stream. Any thread. */
SL_API sl_status sl_stream_stats(const sl_stream* stream, sl_stats* stats);

/* Sizes of the stream, known before its first batch. Any thread. */
SL_API sl_status sl_stream_get_info(const sl_stream* stream, sl_stream_info* info);

/* The stream's position, as zero-terminated JSON of at most SL_STATE_MAX bytes: the batch after the last one
 * that sl_next gave; batches that still lie in the ring do not count. On one line it reads
 *   {"speedyloader_state":1,"dataset":"0123456789abcdef","samples":2000,"seed":0,"shuffle":true,"order":1,
 *    "global_batch":64,"last":"drop","epoch":3,"batch":17}
 * where `batch` counts the batches of that epoch already given. After an epoch's last batch that is batch 0
 * of the next one (SL_END_OF_EPOCH is not said again after resuming); at the end `epoch` is the number of
 * epochs. Asks the daemon nothing. Errors: SL_E_INVALID_ARGUMENT if `bytes` is too small; SL_E_UNSUPPORTED
 * within an epoch whose batches hold what finished first (order.policy "ready", sample level). One thread per
 * handle. */
SL_API sl_status sl_stream_state(const sl_stream* stream, char* json, size_t bytes);

/* The report: per epoch how many samples were planned, delivered, substituted, failed, and who failed and
 * why. After a lost daemon it is the present one's, from the batch on at which it took over;
 * SL_E_DISCONNECTED until there is one. *json is text that sl_free frees. Any thread. */
SL_API sl_status sl_stream_report(sl_stream* stream, char** json);

/* The daemon's status as JSON text that sl_free frees. Any thread. */
SL_API sl_status sl_client_status(sl_client* client, char** json);

/* What the daemon did in its last seconds. It keeps the newest 65,536 events (32,768 a worker where it has
 * more than two, at most 262,144): four a sample and two a batch. trace->events is memory that sl_free frees.
 * Any thread. */
SL_API sl_status sl_client_trace(sl_client* client, sl_trace* trace);

/* Frees what the library gave as text or events; NULL is allowed. Any thread. */
SL_API void sl_free(void* memory);

/* This thread's record of the last call that failed; code SL_OK if none has. Any thread. */
SL_API sl_status sl_last_error(sl_error* error);

/* "SL_E_SPEC" for SL_E_SPEC, and so on; "unknown" for other numbers. Any thread. */
SL_API const char* sl_status_name(sl_status status);

/* "truncated" and so on: the kinds at the end of docs/spec.md. Any thread. */
SL_API const char* sl_sample_kind_name(uint32_t kind);

/* This library's version, as "0.1.0". Any thread. */
SL_API const char* sl_version(void);

/* The daemon's version, after a lost one its successor's; *version lives as long as the client. Any thread.
 */
SL_API sl_status sl_daemon_version(const sl_client* client, const char** version);

#ifdef __cplusplus
}
#endif

#include <speedyloader/guest.h>

#endif /* SPEEDYLOADER_SPEEDYLOADER_H */
