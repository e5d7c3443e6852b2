/* Streams that outlive their daemon: it is killed or asked to end in the middle of an epoch, and what the
 * client gets is, byte for byte, what it would have got. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "e2e.h"

enum { BATCH = 4, EPOCHS = 3, AN_EPOCH = E2E_PHOTOS / BATCH, ALL = EPOCHS * AN_EPOCH };

/* What each batch holds: its place, its bytes and its ids. */
typedef struct content {
    unsigned batches;
    unsigned ends;
    uint64_t sum[ALL + 1];
} content;

static uint64_t sum_of(const sl_batch* batch) {
    sl_batch_info info = {.struct_size = sizeof info};
    assert_int_equal(sl_batch_get_info(batch, &info), SL_OK);
    return (e2e_sum(batch, "image") * 31 + e2e_sum(batch, "sample_id")) * 31 + info.step;
}

/* The next batch, or NULL at the end of all. */
static sl_batch* next(sl_stream* stream, content* seen) {
    for (;;) {
        sl_batch* batch = NULL;
        sl_status status = sl_next(stream, E2E_WAIT_MS, &batch);
        if (status == SL_END) return NULL;
        if (status == SL_END_OF_EPOCH) {
            seen->ends++;
            assert_int_equal(seen->batches, seen->ends * AN_EPOCH);
            continue;
        }
        if (status != SL_OK) e2e_assert_says("no error");
        assert_true(seen->batches < ALL);
        seen->sum[seen->batches++] = sum_of(batch);
        return batch;
    }
}

static content undisturbed(void) {
    content seen = {0};
    e2e now;
    e2e_begin(&now, BATCH, EPOCHS, 0);
    for (sl_batch* batch; (batch = next(now.stream, &seen)) != NULL;)
        assert_int_equal(sl_batch_release(batch), SL_OK);
    e2e_end(&now);
    return seen;
}

static uint64_t reconnects(const sl_stream* stream) {
    sl_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(sl_stream_stats(stream, &stats), SL_OK);
    return stats.reconnects;
}

static void an_epoch_over_several_daemons_is_the_epoch_of_one(void** state) {
    (void)state;
    const content expected = undisturbed();
    content seen = {0};
    e2e now;
    e2e_begin(&now, BATCH, EPOCHS, 4);
    sl_batch* held = next(now.stream, &seen);
    uint64_t sum = sum_of(held);
    for (sl_batch* batch; (batch = next(now.stream, &seen)) != NULL;) {
        assert_int_equal(sl_batch_release(batch), SL_OK);
        /* In the middle of an epoch, and where one ends. */
        if (seen.batches == 3) assert_true(e2e_daemon_processes(SIGKILL) > 0);
        if (seen.batches == 10) assert_true(e2e_daemon_processes(SIGKILL) > 0);
        if (seen.batches == 17) assert_true(e2e_daemon_processes(SIGTERM) > 0);
    }
    assert_int_equal(seen.batches, ALL);
    assert_int_equal(seen.ends, EPOCHS);
    assert_memory_equal(seen.sum, expected.sum, sizeof seen.sum);
    assert_in_range(reconnects(now.stream), 2, 3); /* what lay ready may have been all that was left */
    assert_true(sum_of(held) == sum);              /* of the first of four daemons */
    assert_int_equal(sl_batch_release(held), SL_OK);
    e2e_end(&now);
}

static void what_was_counted_is_summed_over_daemons(void** state) {
    (void)state;
    e2e now;
    content seen = {0};
    e2e_begin(&now, BATCH, 1, 2);
    for (sl_batch* batch; (batch = next(now.stream, &seen)) != NULL;) {
        assert_int_equal(sl_batch_release(batch), SL_OK);
        if (seen.batches == 2) assert_true(e2e_daemon_processes(SIGKILL) > 0);
    }
    sl_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(sl_stream_stats(now.stream, &stats), SL_OK);
    assert_int_equal(stats.reconnects, 1);
    assert_int_equal(stats.batches, AN_EPOCH);
    assert_int_equal(stats.samples, E2E_PHOTOS);
    assert_true(stats.wait_ns > 0);
    e2e_end(&now);
}

typedef struct runner {
    sl_stream* stream;
    pthread_barrier_t* middle;
    content seen;
} runner;

static void* run(void* argument) {
    runner* one = argument;
    for (sl_batch* batch; (batch = next(one->stream, &one->seen)) != NULL;) {
        assert_int_equal(sl_batch_release(batch), SL_OK);
        if (one->seen.batches != 5) continue;
        pthread_barrier_wait(one->middle); /* now the daemon is killed */
        pthread_barrier_wait(one->middle);
    }
    return NULL;
}

static void two_streams_of_one_client_in_two_threads_go_on(void** state) {
    (void)state;
    const content expected = undisturbed();
    sl_client* client = e2e_connect();
    pthread_barrier_t middle;
    pthread_barrier_init(&middle, NULL, 3);
    runner runners[2] = {{.middle = &middle}, {.middle = &middle}};
    pthread_t threads[2];
    for (unsigned i = 0; i < 2; i++) {
        runners[i].stream = e2e_open(client, e2e_spec(BATCH, EPOCHS), 0, SL_LEVEL_BATCH);
        assert_int_equal(pthread_create(&threads[i], NULL, run, &runners[i]), 0);
    }
    pthread_barrier_wait(&middle);
    assert_true(e2e_daemon_processes(SIGKILL) > 0);
    pthread_barrier_wait(&middle);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(runners[i].seen.ends, EPOCHS);
        assert_memory_equal(runners[i].seen.sum, expected.sum, sizeof expected.sum);
        assert_int_equal(reconnects(runners[i].stream), 1);
        assert_int_equal(sl_close(runners[i].stream), SL_OK);
    }
    pthread_barrier_destroy(&middle);
    assert_int_equal(sl_disconnect(client), SL_OK);
}

static void where_no_daemon_can_be_started_patience_ends_and_the_reason_is_told(void** state) {
    (void)state;
    char* daemon = strdup(getenv("SPEEDYLOADER_DAEMON"));
    content seen = {0};
    e2e now;
    e2e_begin_with(&now, 700, BATCH, 1, 2);
    setenv("SPEEDYLOADER_DAEMON", "/bin/false", 1);
    assert_true(e2e_daemon_processes(SIGKILL) > 0);
    sl_status status;
    sl_batch* batch = NULL;
    while ((status = sl_next(now.stream, SL_WAIT_FOREVER, &batch)) == SL_OK) {
        seen.sum[seen.batches++] = sum_of(batch);
        assert_int_equal(sl_batch_release(batch), SL_OK);
    }
    assert_int_equal(status, SL_E_DISCONNECTED);
    e2e_assert_says("ended at its start with status 1");
    setenv("SPEEDYLOADER_DAEMON", daemon, 1);
    free(daemon);
    while ((batch = next(now.stream, &seen)) != NULL)
        assert_int_equal(sl_batch_release(batch), SL_OK);
    assert_int_equal(seen.batches, AN_EPOCH);
    e2e_end(&now);
}

static void a_sample_stream_in_mid_epoch_has_no_position_to_go_on_from(void** state) {
    (void)state;
    e2e now = {.client = e2e_connect()};
    now.stream = e2e_open(now.client, e2e_spec(8, 1), 2, SL_LEVEL_SAMPLE);
    sl_batch* sample = NULL;
    assert_int_equal(sl_next_sample(now.stream, E2E_WAIT_MS, &sample, NULL), SL_OK);
    assert_true(e2e_daemon_processes(SIGKILL) > 0);
    assert_int_equal(sl_batch_release(sample), SL_OK);
    sl_status status;
    while ((status = sl_next_sample(now.stream, E2E_WAIT_MS, &sample, NULL)) == SL_OK)
        assert_int_equal(sl_batch_release(sample), SL_OK);
    assert_int_equal(status, SL_E_DISCONNECTED);
    e2e_assert_says("finished first");
    e2e_end(&now);
}

const struct CMUnitTest e2e_restart_tests[] = {
    cmocka_unit_test(an_epoch_over_several_daemons_is_the_epoch_of_one),
    cmocka_unit_test(what_was_counted_is_summed_over_daemons),
    cmocka_unit_test(two_streams_of_one_client_in_two_threads_go_on),
    cmocka_unit_test(where_no_daemon_can_be_started_patience_ends_and_the_reason_is_told),
    cmocka_unit_test(a_sample_stream_in_mid_epoch_has_no_position_to_go_on_from),
};
const size_t e2e_restart_count = sizeof e2e_restart_tests / sizeof e2e_restart_tests[0];
