/* What the two files of tests about writing share: batches of several pages, writing all over them, and two
 * streams of one spec, whose batches have to be the same. */
#ifndef SL_TESTS_CLIENT_E2E_WRITES_H
#define SL_TESTS_CLIENT_E2E_WRITES_H

#include "e2e.h"

/* Batches of 16: 72 KiB of pixels, several pages each. 40 photographs make 3 batches an epoch. */
enum { BATCH = 16, EPOCHS = 40, SLOTS = 3 };

typedef struct bytes {
    uint8_t* at;
    uint64_t count;
} bytes;

bytes tensor_bytes(const sl_batch* batch, const char* name);

/* Also over the border of an epoch. */
sl_batch* next_in_any_epoch(sl_stream* stream);

/* Allows it and turns over every bit of every tensor. */
void scribble(sl_batch* batch);

/* Every tensor of one equals the other's, byte for byte. */
void assert_same(const sl_batch* one, const sl_batch* other);

/* Takes `count` batches of two streams of one spec; both have to give the same. */
void assert_same_batches(sl_stream* one, sl_stream* other, unsigned count);

/* Two clients of one spec: one that is going to write and one that never does. */
typedef struct pair {
    e2e writer;
    e2e reader;
} pair;

void begin_pair(pair* made);

/* The same with batches of 2.4 MB, more pages than are looked at in one go. */
void begin_large_pair(pair* made);

void end_pair(pair* made);

#endif
