/* What the tests of reconnection share: a connection to a peer that can go and be followed by another one,
 * whose memory begins where the first one's stopped. One thread; a failure is a failed assertion. */
#ifndef SL_TESTS_CLIENT_RECONNECT_H
#define SL_TESTS_CLIENT_RECONNECT_H

#include <speedyloader/speedyloader.h>

#include "cmocka_c.h"
#include "peer.h"
#include "shm/messages.h"

enum { BATCHES = 20, EPOCHS = 2 };

typedef struct restart {
    peer one;
    segment memory; /* of the first daemon */
    segment next;   /* and of its successor */
    sl_client* client;
    sl_stream* stream;
} restart;

int64_t restart_now_ms(void);

/* Begins a stream with the patience, in milliseconds. */
void restart_begin(restart* now, int64_t reconnect_ms);
void restart_end(restart* now);

/* The daemon gives batch `batch` of the first epoch, which is taken and released. */
void restart_take(restart* now, segment* memory, uint64_t batch);
void restart_publish(segment* memory, uint64_t batch, uint32_t slot);

/* The daemon dies. */
void restart_kill(restart* now);

/* The next one's memory begins at the batch; restart_follow starts it. */
void restart_prepare(restart* now, uint64_t batch);
void restart_follow(restart* now, uint64_t batch);

/* sl_next until it says something else than SL_TIMEOUT, `timeout_ms` a call. */
sl_status restart_next(sl_stream* stream, int64_t timeout_ms, sl_batch** batch);

void restart_says(const char* part);

extern const struct CMUnitTest reconnect_loop_tests[];
extern const size_t reconnect_loop_count;

#endif
