/* What the daemon hands over as a trace, in plain C: a header, then events, in one sealed memfd (the answer
 * to TRACE in shm/messages.h). The daemon writes it on its conductor's thread, the client library copies it
 * out.
 *
 * Every event is a span that has ended (an instant: begin equals end), written when the conductor learnt of
 * the end; so events lie in the order of ends, but for decodes and rows, whose ends others report a moment
 * later. */
#ifndef SL_SHM_TRACE_H
#define SL_SHM_TRACE_H

#include <stdint.h>

#include "shm/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SL_SHM_TRACE_OPEN = 1,     /* a file is opened and asked for its size; amount: its bytes */
    SL_SHM_TRACE_READ = 2,     /* its bytes are read; amount: how many came */
    SL_SHM_TRACE_DECODE = 3,   /* a worker decodes and transforms; track: worker; amount: CPU ns */
    SL_SHM_TRACE_ROW = 4,      /* an assembler thread writes a row; track: thread */
    SL_SHM_TRACE_PUBLISH = 5,  /* instant: a whole batch is the client's; amount: rows */
    SL_SHM_TRACE_LEASE = 6,    /* from a batch's publication to its return */
    SL_SHM_TRACE_WAIT = 7,     /* the client waited in sl_next */
    SL_SHM_TRACE_FULL = 8,     /* finished work waited for a batch to be returned */
    SL_SHM_TRACE_EPOCH_END = 9, /* instant: the epoch's last batch has been published */
    SL_SHM_TRACE_COLLATE = 10   /* a guest worker collates a batch; track and amount as DECODE */
};

typedef struct sl_shm_trace_event {
    uint64_t begin_ns; /* CLOCK_MONOTONIC */
    uint64_t end_ns;
    uint64_t sample_id; /* OPEN, READ, DECODE, ROW, COLLATE: of the first valid row */
    uint64_t step;      /* batches before its batch since epoch 0; of a row: the batch it is in */
    uint64_t amount;    /* see the kind */
    uint32_t stream;    /* id, as in the status */
    uint32_t epoch;
    uint32_t batch;        /* index in the epoch */
    uint32_t predicted_us; /* DECODE */
    uint16_t track;        /* worker or assembler thread, from 0; guest workers behind the workers */
    uint8_t kind;          /* SL_SHM_TRACE_... */
    uint8_t lane;          /* DECODE, READ, ROW: 0 light, 1 medium, 2 heavy, as predicted */
    uint32_t error;        /* OPEN, READ: errno; DECODE, COLLATE: sample error kind; 0: none */
} sl_shm_trace_event;
SL_SHM_ASSERT(sizeof(sl_shm_trace_event) == 64);

typedef struct sl_shm_trace_header {
    uint32_t header_bytes; /* where the events begin */
    uint32_t event_bytes;
    uint64_t count;
    uint64_t overwritten; /* events since the daemon's start that are not there any more */
    uint64_t now_ns;      /* CLOCK_MONOTONIC, when the copy was taken */
    uint32_t workers;
    uint32_t assemblers;
} sl_shm_trace_header;
SL_SHM_ASSERT(sizeof(sl_shm_trace_header) == 40);

#ifdef __cplusplus
}
#endif

#endif /* SL_SHM_TRACE_H */
