/* Control messages between the daemon and whoever attaches, in plain C.
 *
 * Transport: a SOCK_SEQPACKET Unix socket, one message a packet, at most SL_MESSAGE_MAX bytes. Every message
 * opens with sl_message (length and version first); a receiver copies the packet, checks length and type, and
 * only then looks at the body. A message carries at most one descriptor, and only where its comment says so.
 *
 *   client                          daemon
 *   HELLO (role client)        ->
 *                              <-   HELLO_REPLY, or ERROR (version, denied, budget)
 *   OPEN (options, spec, state) ->
 *                              <-   SEGMENT x 4 (batch, return page, wake, event; one descriptor each)
 *                              <-   OPEN_REPLY, or ERROR
 *   CLOSE, STATUS, REPORT      ->
 *                              <-   CLOSE_REPLY / DOCUMENT (a sealed memfd with JSON), or ERROR
 *   TRACE                      ->
 *                              <-   DOCUMENT (a sealed memfd with what shm/trace.h says), or ERROR
 *   ITEMS (a part of an order) until it is whole, and then the OPEN of a stream of items. ITEMS has no answer
 *   of its own: what is wrong with it is the OPEN's error. No descriptor ever goes this way: to close one of a
 *   stranger's file system waits for that file system
 *
 *   worker                          daemon
 *   HELLO (role worker)        ->
 *                              <-   HELLO_REPLY
 *                              <-   SEGMENT (channel, wake, input)
 *                              <-   PIPELINE + SEGMENT (samples) for each stream; the worker answers MAPPED
 *                              <-   FORGET (stream)
 *
 *   guest                           daemon
 *   HELLO (role guest)         ->
 *                              <-   HELLO_REPLY, or ERROR
 *   GUEST (crew)               ->
 *                              <-   SEGMENT (channel, wake), or ERROR
 *                              <-   PIPELINE (with sl_shm_item_layout) + SEGMENT (rows, if the layout has batch
 *                                   slots) + SEGMENT (samples) for each stream of the crew; the guest answers MAPPED
 *                              <-   FORGET (stream)
 *
 * A reply carries the request's `request` number; requests of one connection are answered in any order.
 */
#ifndef SL_SHM_MESSAGES_H
#define SL_SHM_MESSAGES_H

#include <stdint.h>

#include "shm/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SL_MESSAGE_MAX 65536u
#define SL_SPEC_MAX (SL_MESSAGE_MAX - 1024u)
#define SL_OPEN_STATE_MAX 512u /* a saved position, also one written out with blanks and line breaks */

enum {
    SL_MSG_HELLO = 1,
    SL_MSG_HELLO_REPLY = 2,
    SL_MSG_ERROR = 3,
    SL_MSG_OPEN = 4,
    SL_MSG_OPEN_REPLY = 5,
    SL_MSG_SEGMENT = 6,  /* carries one descriptor */
    SL_MSG_CLOSE = 7,
    SL_MSG_CLOSE_REPLY = 8,
    SL_MSG_STATUS = 9,
    SL_MSG_REPORT = 10,
    SL_MSG_DOCUMENT = 11,  /* carries one descriptor */
    SL_MSG_PIPELINE = 12,
    SL_MSG_MAPPED = 13,
    SL_MSG_FORGET = 14,
    SL_MSG_TRACE = 15, /* since 1.2; sl_message alone */
    SL_MSG_ITEMS = 16, /* since 1.3 */
    SL_MSG_GUEST = 17  /* since 1.3 */
};

enum { SL_ROLE_CLIENT = 1, SL_ROLE_WORKER = 2, SL_ROLE_GUEST = 3 /* since 1.3 */ };

enum {
    SL_SEGMENT_BATCHES = 1,  /* batch segment, read-only */
    SL_SEGMENT_RETURNS = 2,  /* return page, writable by this client */
    SL_SEGMENT_WAKE = 3,     /* eventfd: rings the daemon (client: after a return; worker: after a completion);
                              * nobody reads it, every write wakes */
    SL_SEGMENT_EVENT = 4,    /* datagram socket: the daemon sends a byte on publish, for event loops */
    SL_SEGMENT_CHANNEL = 5,  /* worker channel */
    SL_SEGMENT_INPUT = 6,    /* input segment, read-only */
    SL_SEGMENT_SAMPLES = 7,  /* sample segment of a stream, writable by workers */
    SL_SEGMENT_ROWS = 8      /* since 1.3: batch segment of a stream of items, writable by its guests */
};

typedef struct sl_message {
    uint32_t length;  /* of the whole packet */
    uint16_t major;
    uint16_t minor;
    uint32_t type;
    uint32_t request;
} sl_message;
SL_SHM_ASSERT(sizeof(sl_message) == 16);

typedef struct sl_msg_hello {
    sl_message head;
    uint32_t role;
    uint32_t reserved;
    char program[64]; /* zero-terminated, for the status */
} sl_msg_hello;

typedef struct sl_msg_hello_reply {
    sl_message head;
    uint64_t boot_id;
    int32_t daemon_pid;
    uint32_t reserved;
    char version[32];
} sl_msg_hello_reply;

typedef struct sl_msg_error {
    sl_message head;
    int32_t status; /* SL_E_... */
    int32_t os_errno;
    char message[SL_SHM_MESSAGE_MAX];
} sl_msg_error;

typedef struct sl_msg_open {
    sl_message head;
    uint32_t slots;       /* batch slots wanted; 0: the daemon chooses */
    uint32_t flags;       /* SL_OPEN_... */
    uint32_t spec_bytes;  /* JSON follows this struct */
    uint32_t state_bytes; /* since 1.1: a saved position follows the spec; 0: from the start */
} sl_msg_open;
SL_SHM_ASSERT(sizeof(sl_msg_open) + SL_SPEC_MAX + SL_OPEN_STATE_MAX <= SL_MESSAGE_MAX);
enum {
    SL_OPEN_SAMPLES = 1,        /* sample level: one sample a slot, in the order they finish */
    SL_OPEN_CHANGED_DATASET = 2 /* since 1.1: the state may be of another dataset */
};

typedef struct sl_msg_open_reply {
    sl_message head;
    uint64_t stream_id;
} sl_msg_open_reply;

typedef struct sl_msg_segment {
    sl_message head;
    uint64_t stream_id;  /* 0: not a stream's */
    uint32_t kind;       /* SL_SEGMENT_... */
    uint32_t reserved;
    uint64_t bytes;      /* 0 for wake and event */
} sl_msg_segment;

typedef struct sl_msg_stream { /* CLOSE, CLOSE_REPLY, REPORT, MAPPED, FORGET */
    sl_message head;
    uint64_t stream_id;
} sl_msg_stream;

typedef struct sl_msg_document {
    sl_message head;
    uint64_t bytes;
} sl_msg_document;

typedef struct sl_msg_pipeline {
    sl_message head;
    uint64_t stream_id;
    uint32_t pipeline_bytes; /* to a worker the compiled pipeline of daemon/plan/pipeline.h follows (same build on
                              * both sides), to a guest sl_shm_item_layout */
    uint32_t reserved;
} sl_msg_pipeline;

/* A part of the order of the stream that is opened next. All parts together: `count` x uint64, the item of each
 * position (SL_SHM_NO_ITEM: nobody's), and with has_hints then `count` x double, the cost of each relative to the
 * others, finite and above 0. */
typedef struct sl_msg_items {
    sl_message head;
    uint64_t count;     /* of the whole order, in each part */
    uint32_t has_hints; /* as many doubles follow the items */
    uint32_t part;      /* 0, 1, ...: 0 begins an order. What follows this struct is its next whole words */
} sl_msg_items;
SL_SHM_ASSERT(sizeof(sl_msg_items) == 32);

typedef struct sl_msg_guest {
    sl_message head;
    uint64_t crew;
    uint32_t workers; /* that the crew will have */
    uint32_t reserved;
} sl_msg_guest;
SL_SHM_ASSERT(sizeof(sl_msg_guest) == 32);

#ifdef __cplusplus
}
#endif

#endif /* SL_SHM_MESSAGES_H */
