/* A stream's handle, and what the files that open, read, wait and go on with one offer to each other. Never
 * installed.
 *
 * stream.c opens and closes, opening.c has the conversation, next.c takes batches, wait.c waits for them,
 * loop.c is for event loops, position.c knows where it is, reopen.c goes on with another daemon. One thread a
 * stream, but for what the stream's lock guards. */
#ifndef SL_CAPI_STREAM_H
#define SL_CAPI_STREAM_H

#include "internal.h"

/* Descriptors of a stream's segments, indexed by kind - 1: batches, returns, wake, event. */
enum { SL_PARTS = 4 };
typedef struct sl_parts {
    int fd[SL_PARTS];
} sl_parts;

/* What a stream is opened with, and once more after its connection was lost. */
typedef struct sl_wanted {
    char* spec;
    uint32_t spec_bytes;
    uint32_t slots;
    uint32_t flags; /* of OPEN */
    sl_level level;
    int64_t timeout_ms;
    int items_fd; /* the order of a stream of items; -1: none */
    uint64_t items;
    bool hints;
} sl_wanted;

/* An OPEN whose answer is awaited (opening.c). Whoever receives it fills it in, under the client's lock. */
typedef struct sl_opening {
    struct sl_opening* next;
    uint32_t request;    /* 0: there is none */
    uint32_t connection; /* that it was sent over */
    sl_time until;
    sl_parts parts;
    uint64_t stream_id;
    sl_status status; /* SL_TIMEOUT: not answered yet */
    sl_error error;
} sl_opening;

/* What an event loop watches (loop.c). */
typedef struct sl_loop {
    int event_fd; /* rung by the daemon on publish once asked for */
    int fd;       /* epoll over the others; -1 until asked for */
    int watch_fd; /* of the connection that the stream belongs to: tells of its end */
    int timer_fd; /* while the stream has no daemon; else -1 */
} sl_loop;

struct sl_stream {
    pid_t pid;
    sl_client* client;
    /* The thread that calls sl_next changes these and `before` under the lock, and reads them without. */
    pthread_mutex_t lock;
    sl_mapping* map;
    uint64_t stream_id;
    uint32_t connection; /* that they belong to */
    sl_level level;
    uint32_t consumed;  /* PUBLISH: our read cursor, modulo 2^32; atomic for sl_stream_stats */
    sl_status finished; /* SL_OK, SL_END, or the error that stopped the stream */
    uint64_t epoch;     /* position: the batch after the last one taken */
    uint64_t batch;
    bool owes_end;        /* the epoch's last batch was taken, and its end not said yet */
    uint64_t first_epoch; /* where it began */
    uint64_t first_batch;
    sl_loop loop;
    uint64_t wait_ns; /* atomic, relaxed */
    uint64_t waits;
    uint64_t waiting_since; /* the daemon is told (return page); 0: not waiting */

    /* Going on after a lost connection (reopen.c). */
    sl_wanted wanted; /* spec NULL: it never does */
    sl_stats before;  /* sums of the daemons that are gone */
    sl_error why;     /* the error that stopped it, unless the mapping's error page has that */
    sl_opening opening;
    uint64_t lost;        /* 1: there is no daemon; atomic */
    uint32_t fruitless;   /* openings since the last batch */
    sl_time closed_since; /* the daemon has ended the stream, and not the connection yet; 0: it has not */
};

/* items.c */
sl_status sl_items_check(const sl_items* given, sl_items* items);
/* The order as a sealed file; the caller closes it. */
sl_status sl_items_file(const sl_items* items, int* fd);
/* Between begin and end of a conversation, right before OPEN. */
sl_status sl_items_send(sl_client* client, const sl_wanted* wanted, sl_time deadline);

/* opening.c */
/* Sends OPEN, after the order of a stream of items. state: NULL or "": at the first batch. */
sl_status sl_opening_send(sl_client* client, sl_opening* opening, const sl_wanted* wanted, const char* state,
                          sl_time deadline);
/* SL_TIMEOUT: the answer is still to come. */
sl_status sl_opening_await(sl_client* client, sl_opening* opening, sl_time deadline);
/* Whether the reply was an opening's; its descriptor is then taken care of. */
bool sl_opening_take(sl_client* client, const sl_reply* reply);
/* Maps what the daemon has sent; *event_fd is the caller's from then on. What is left is closed by
 * sl_opening_end. */
sl_status sl_opening_map(sl_client* client, sl_opening* opening, sl_level level, sl_mapping** map,
                         int* event_fd);
/* Forgets it, answered or not. */
void sl_opening_end(sl_client* client, sl_opening* opening);

/* reopen.c */
sl_status sl_wanted_keep(const sl_wanted* from, sl_wanted* to);
void sl_wanted_drop(sl_wanted* wanted);
/* The daemon has gone. SL_OK: there is another one, and the caller looks again. */
sl_status sl_stream_go_on(sl_stream* stream, sl_time deadline);

/* stats.c */
void sl_stats_add(sl_stats* sum, const sl_mapping* map);

/* loop.c */
void sl_loop_drain(const sl_stream* stream); /* not readable any more, until something happens */
void sl_loop_lost(sl_stream* stream);        /* rings at intervals, so that a successor is looked for */
void sl_loop_found(sl_stream* stream, int event_fd); /* of the new daemon; taken over */
void sl_loop_close(sl_loop* loop);

/* wait.c */
sl_status sl_stream_await(sl_stream* stream, sl_time deadline);
void sl_wait_ended(sl_stream* stream);

/* position.c */
void sl_position_begin(sl_stream* stream);
void sl_position_advance(sl_stream* stream);

#endif
