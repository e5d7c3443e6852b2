/* What the library's files share: the handles behind the public pointers but for the stream's (stream.h), and
 * what each file offers to the others. Never installed.
 *
 * Who owns what: a client owns the socket; a stream holds a reference to its client; a mapping owns the
 * shared memory and the wake descriptor, and is held by its stream and by every leased batch, so that a lease
 * outlives stream and client. Functions return a status after writing the thread's error record (error.c). */
#ifndef SL_CAPI_INTERNAL_H
#define SL_CAPI_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "shm/layout.h"
#include "shm/messages.h"
#include "speedyloader/speedyloader.h"

typedef int64_t sl_time; /* CLOCK_MONOTONIC, nanoseconds; SL_NEVER: no deadline */
#define SL_NEVER INT64_MAX

/* Where a daemon is looked for: a path, or this user's private address. */
typedef struct sl_place {
    char name[108]; /* of the socket; a private one is abstract: it begins with a zero byte */
    size_t bytes;
    bool is_private;
    char where[192]; /* for messages */
} sl_place;

/* A version's text, which lives as long as its client. */
typedef struct sl_version_text {
    struct sl_version_text* next;
    char text[32];
} sl_version_text;

/* How far a lost connection's successor is (reconnect.c). Belongs to the thread that is at it, but for
 * under_way. */
typedef struct sl_revival {
    bool under_way;     /* under the client's lock */
    sl_client* attempt; /* has said HELLO to somebody; NULL: nobody was there yet */
    bool answered;      /* and was answered */
    sl_time answer_until;
    pid_t child;   /* a private daemon that was started for the attempt, to be reaped; 0: none */
    sl_time until; /* the end of patience; 0: nothing is lost */
    sl_time next_look;
    char why[384]; /* the last look came to nothing */
} sl_revival;

struct sl_client {
    pid_t pid;     /* the process that connected */
    int socket;    /* SOCK_SEQPACKET, non-blocking; the same number over all connections (reconnect.c) */
    uint32_t refs; /* the caller's handle and one a stream; atomic */
    pthread_mutex_t lock;
    pthread_cond_t idle;         /* broadcast when busy or under_way is cleared; CLOCK_MONOTONIC */
    bool busy;                   /* a request is under way; under lock */
    uint32_t request;            /* its number; belongs to whoever is busy */
    uint32_t connection;         /* counts from 1; atomic, changed by whoever is busy */
    bool left;                   /* by sl_disconnect; atomic */
    sl_version_text* versions;   /* the present one first; atomic */
    char where[192];             /* what it is connected to, for messages */
    struct sl_opening* openings; /* that wait for their answers; under lock */

    /* For connecting again. */
    sl_place place;
    uint32_t flags; /* SL_CONNECT_... */
    char program[64];
    sl_time answer_time; /* that a daemon has for its HELLO_REPLY */
    sl_time patience;    /* 0: never connects again */
    sl_revival revival;
};

typedef struct sl_mapping sl_mapping;

enum { SL_BATCH_FREE = 0, SL_BATCH_LEASED = 1 };

/* Whether a slot may be written in this process; TRIED: perhaps a part of it. Never goes back (writes.c). */
enum { SL_WRITES_NEVER = 0, SL_WRITES_TRIED = 1, SL_WRITES_ALLOWED = 2 };

/* One a slot, since a slot is leased at most once at a time: taking a batch needs no memory and no lock. */
struct sl_batch {
    sl_mapping* map;
    uint32_t state;  /* SL_BATCH_...; atomic, so that a second release is noticed */
    uint32_t writes; /* SL_WRITES_..., of the slot: outlives the lease; atomic */
    uint64_t faults; /* of this process when the lease began; 0: unknown */
    sl_shm_descriptor descriptor;
};

struct sl_mapping {
    uint32_t refs; /* the stream and one a leased batch; atomic */
    pid_t pid;
    const uint8_t* segment;      /* batch segment, read-only but for slots that may be written */
    int batches_fd;              /* of the segment, for slots that are to be written */
    sl_shm_return_page* returns; /* ours to write */
    int wake_fd;                 /* rings the daemon */
    sl_shm_batch_header header;  /* private, checked copy */
    sl_batch batches[];          /* header.slot_count */
};

/* PIPELINE as guests get it. */
typedef struct sl_pipeline_packet {
    sl_msg_pipeline head;
    sl_shm_item_layout layout;
} sl_pipeline_packet;

/* What arrives on a socket: at most one descriptor with it (-1: none). Replies to clients are small. */
typedef struct sl_reply {
    union {
        sl_message head;
        sl_msg_error error;
        sl_msg_hello_reply hello;
        sl_msg_open_reply open;
        sl_msg_segment segment;
        sl_msg_stream stream;
        sl_msg_document document;
        sl_pipeline_packet pipeline;
    } body;
    int fd;
} sl_reply;

/* error.c */
sl_status sl_fail(sl_status code, int os_errno, const char* format, ...)
    __attribute__((format(printf, 3, 4)));
sl_status sl_fail_stream(const sl_shm_stream_error* page);
sl_status sl_fail_again(const sl_error* error);
bool sl_is_error_code(int32_t code);

/* options.c: structs that the caller sized */
sl_status sl_take_options(const void* theirs, void* ours, size_t our_size, const char* name);
sl_status sl_check_result(const void* theirs, const char* name);
void sl_give_result(void* theirs, const void* ours, size_t our_size);

/* clock.c */
sl_time sl_now(void);
sl_time sl_deadline(int64_t timeout_ms);
int sl_poll_ms(sl_time deadline);

/* fork.c */
sl_status sl_check_owner(pid_t pid);

/* socket.c: results are 0 or -errno */
int sl_socket_connect(const char* name, size_t name_bytes, sl_time deadline, int* fd);
int sl_socket_send(int fd, const void* head, size_t bytes, const void* body, size_t body_bytes, int carried,
                   sl_time deadline);
sl_status sl_socket_receive(int fd, sl_reply* reply, const char* where, sl_time deadline);
bool sl_socket_readable(int fd); /* a message or the end of the connection is there */
bool sl_socket_lost(int fd);

/* client.c */
sl_status sl_client_new(int fd, const char* where, sl_client** client);
/* HELLO, and its answer: the first may be sent long before the second is there. */
sl_status sl_client_hello(sl_client* client, const char* program, uint32_t role, sl_time deadline);
sl_status sl_client_say_hello(sl_client* client, const char* program, uint32_t role, sl_time deadline);
sl_status sl_client_hear_hello(sl_client* client, sl_time deadline);
sl_client* sl_client_hold(sl_client* client);
void sl_client_drop(sl_client* client);
/* A conversation: begin waits for its turn, end gives it up. What is sent in between has one request number;
 * send fills in the head. `carried` is a descriptor or -1. With `connection` it is had over that one or not
 * at all (SL_E_DISCONNECTED); 0: over the present one. */
sl_status sl_client_begin(sl_client* client, uint32_t connection, sl_time deadline);
sl_status sl_client_send(sl_client* client, sl_message* head, size_t bytes, const void* body,
                         size_t body_bytes, int carried, sl_time deadline);
sl_status sl_client_receive(sl_client* client, sl_reply* reply, sl_time deadline);
/* Takes a reply that is not the present request's to whom it belongs, if to anybody. */
void sl_client_sort(sl_client* client, sl_reply* reply);
void sl_client_end(sl_client* client);
sl_status sl_client_call(sl_client* client, uint32_t connection, sl_message* head, size_t bytes,
                         uint32_t wanted, sl_reply* reply, sl_time deadline);
/* Between begin and end: the daemon is told that nobody wants the stream, and need not answer. */
void sl_client_abandon(sl_client* client, uint64_t stream_id);
static inline uint32_t sl_connection(const sl_client* client) {
    return __atomic_load_n(&client->connection, __ATOMIC_ACQUIRE);
}

sl_status sl_client_fail_as_told(const sl_client* client, const sl_msg_error* error);

/* connect.c */
sl_status sl_connect_as(uint32_t role, const sl_connect_options* given, sl_client** client);
/* One look for a daemon at the place. SL_OK: *fd is connected to it. *child, if it was 0: a private daemon
 * that was started, for sl_start_ended. Whatever else: not now. */
sl_status sl_dial(const sl_place* place, uint32_t flags, int* fd, pid_t* child);

/* reconnect.c */
/* SL_OK: the client is connected, perhaps anew. SL_TIMEOUT: not yet; it goes on with the next call.
 * SL_E_DISCONNECTED: patience has ended. Any thread; one connection for all. */
sl_status sl_client_revive(sl_client* client, sl_time deadline);
void sl_revival_end(sl_revival* revival);
static inline bool sl_client_has_left(const sl_client* client) {
    return __atomic_load_n(&client->left, __ATOMIC_ACQUIRE);
}

/* document.c */
/* *text has a zero byte behind it; length (may be NULL) is without that. */
sl_status sl_client_document(sl_client* client, uint32_t connection, sl_message* head, size_t bytes,
                             char** text, uint64_t* length);

/* private.c, spawn.c */
sl_status sl_private_place(sl_place* place);
/* SL_NOT_READY: another process is about to listen there. */
sl_status sl_private_dial(const sl_place* place, uint32_t flags, sl_time deadline, int* fd, pid_t* child);
sl_status sl_private_connect(const sl_place* place, uint32_t flags, const char* program, uint32_t role,
                             sl_time deadline, sl_client** client);
/* `status`: what came of talking to the daemon that was started. */
sl_status sl_start_ended(pid_t child, sl_status status);
sl_status sl_spawn_daemon(int listen_fd, pid_t* child);
int sl_spawn_reap(pid_t child, bool failed);

/* mapping.c */
/* A memfd of at least so many bytes that cannot be cut short, which would be a SIGBUS. */
sl_status sl_check_file(int fd, uint64_t least, const char* what, uint64_t* bytes);
/* Takes batches_fd and wake_fd over if it succeeds. */
sl_status sl_mapping_new(int batches_fd, int returns_fd, int wake_fd, sl_mapping** map);
void sl_mapping_hold(sl_mapping* map);
void sl_mapping_drop(sl_mapping* map);
void sl_mapping_ring(const sl_mapping* map);
static inline const sl_shm_batch_live* sl_live(const sl_mapping* map) {
    return (const sl_shm_batch_live*)(map->segment + SL_SHM_LIVE_OFFSET);
}

/* writes.c */
sl_status sl_writes_allow(sl_batch* batch);
void sl_writes_begin(sl_batch* batch); /* a lease begins */
sl_status sl_writes_end(sl_batch* batch);

/* wait.c */
/* Sleeps while *word is `seen`, or for `ns`; comes back earlier for nothing too. */
void sl_futex_sleep(const uint32_t* word, uint32_t seen, sl_time ns);

/* batch.c */
void sl_copy_sample(const sl_batch* batch, uint32_t row, sl_sample_info* info);

#endif
