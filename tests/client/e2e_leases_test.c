/* Leases with the real daemon: any order, any thread, longer than their stream, and not across fork. */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e.h"

static void* release(void* batch) {
    return sl_batch_release(batch) == SL_OK ? NULL : batch;
}

static void leases_end_in_any_order_from_any_thread(void** state) {
    (void)state;
    e2e now;
    e2e_begin(&now, 4, 4, 4);
    for (unsigned round = 0; round < 10; round++) {
        sl_batch* held[4];
        sl_status ended = SL_OK;
        for (unsigned i = 0; i < 4; i++) {
            do
                ended = sl_next(now.stream, E2E_WAIT_MS, &held[i]);
            while (ended == SL_END_OF_EPOCH);
            assert_int_equal(ended, SL_OK);
        }
        pthread_t threads[4];
        for (unsigned i = 0; i < 4; i++) {
            sl_batch* one = held[(i + round) % 4 ^ 1]; /* another order every round */
            assert_int_equal(pthread_create(&threads[i], NULL, release, one), 0);
        }
        for (unsigned i = 0; i < 4; i++) {
            void* failed = NULL;
            assert_int_equal(pthread_join(threads[i], &failed), 0);
            assert_null(failed);
        }
    }
    sl_batch* none = NULL;
    assert_int_equal(sl_next(now.stream, E2E_WAIT_MS, &none), SL_END_OF_EPOCH);
    assert_int_equal(sl_next(now.stream, E2E_WAIT_MS, &none), SL_END);
    e2e_end(&now);
}

static void a_held_batch_keeps_its_bytes_while_others_come_and_go(void** state) {
    (void)state;
    e2e now;
    e2e_begin(&now, 4, 2, 2);
    sl_batch* held = e2e_next(now.stream);
    uint64_t sum = e2e_sum(held, "image");
    for (unsigned i = 0; i < 9; i++)
        assert_int_equal(sl_batch_release(e2e_next(now.stream)), SL_OK);
    assert_true(e2e_sum(held, "image") == sum);
    assert_int_equal(sl_batch_release(held), SL_OK);
    e2e_end(&now);
}

static void a_batch_stays_readable_after_its_stream_and_client_are_gone(void** state) {
    (void)state;
    e2e now;
    e2e_begin(&now, 4, 1, 0);
    sl_batch* first = e2e_next(now.stream);
    sl_batch* second = e2e_next(now.stream);
    uint64_t sum = e2e_sum(first, "image");
    assert_int_equal(sl_disconnect(now.client), SL_OK);
    sl_batch* none = NULL;
    sl_status status;
    /* What was published before is still given; then the stream knows. */
    while ((status = sl_next(now.stream, E2E_WAIT_MS, &none)) == SL_OK)
        assert_int_equal(sl_batch_release(none), SL_OK);
    assert_int_equal(status, SL_E_DISCONNECTED);
    assert_int_equal(sl_close(now.stream), SL_OK);
    assert_true(e2e_sum(first, "image") == sum);
    assert_int_equal(sl_batch_release(second), SL_OK);
    assert_true(e2e_sum(first, "image") == sum);
    assert_int_equal(sl_batch_release(first), SL_OK);
}

/* In the child: 0 if all is as promised, else the number of the step that was not. */
static int child_steps(const e2e* parents, sl_batch* held) {
    sl_batch* batch = NULL;
    char* text = NULL;
    if (sl_next(parents->stream, 0, &batch) != SL_E_FORKED) return 1;
    if (sl_batch_release(held) != SL_E_FORKED) return 2;
    if (sl_client_status(parents->client, &text) != SL_E_FORKED) return 3;
    if (sl_close(parents->stream) != SL_E_FORKED) return 4;
    if (sl_disconnect(parents->client) != SL_E_FORKED) return 5;
    sl_connect_options options = {.struct_size = sizeof options, .flags = SL_CONNECT_PRIVATE};
    sl_client* client = NULL;
    sl_stream* stream = NULL;
    if (sl_connect(&options, &client) != SL_OK) return 6;
    const char* spec = e2e_spec(4, 1);
    if (sl_open(client, spec, strlen(spec), NULL, &stream) != SL_OK) return 7;
    if (sl_next(stream, E2E_WAIT_MS, &batch) != SL_OK) return 8;
    if (sl_batch_release(batch) != SL_OK || sl_close(stream) != SL_OK) return 9;
    return sl_disconnect(client) == SL_OK ? 0 : 10;
}

static void a_forked_child_is_refused_and_may_connect_anew(void** state) {
    (void)state;
    e2e now;
    e2e_begin(&now, 4, 1, 0);
    sl_batch* held = e2e_next(now.stream);
    uint64_t sum = e2e_sum(held, "image");
    pid_t child = fork();
    if (child == 0) _exit(child_steps(&now, held));
    int ended = 0;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFEXITED(ended));
    assert_int_equal(WEXITSTATUS(ended), 0);
    /* And the parent has lost nothing. */
    assert_true(e2e_sum(held, "image") == sum);
    assert_int_equal(sl_batch_release(held), SL_OK);
    unsigned batches = 1;
    sl_batch* batch = NULL;
    sl_status status;
    while ((status = sl_next(now.stream, E2E_WAIT_MS, &batch)) == SL_OK) {
        batches++;
        assert_int_equal(sl_batch_release(batch), SL_OK);
    }
    assert_int_equal(status, SL_END_OF_EPOCH);
    assert_int_equal(batches, 10);
    e2e_end(&now);
}

static void* keep_asking(void* client) {
    char* text = NULL;
    sl_status status;
    /* Until the daemon is gone: somebody is always inside a request when the process forks. */
    while ((status = sl_client_status(client, &text)) == SL_OK)
        sl_free(text);
    return status == SL_E_DISCONNECTED ? NULL : client;
}

static void a_child_forked_in_the_middle_of_requests_never_hangs(void** state) {
    (void)state;
    e2e now;
    e2e_begin(&now, 4, 1, 0);
    pthread_t threads[2];
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, keep_asking, now.client), 0);
    }
    for (unsigned i = 0; i < 200; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(10); /* a hang becomes a signal */
            char* text = NULL;
            _exit(sl_client_status(now.client, &text) == SL_E_FORKED ? 0 : 1);
        }
        int ended = 0;
        assert_int_equal(waitpid(child, &ended, 0), child);
        assert_int_equal(ended, 0);
    }
    assert_true(e2e_daemon_processes(SIGKILL) > 0);
    for (unsigned i = 0; i < 2; i++) {
        void* failed = NULL;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    e2e_end(&now);
}

static void held_batches_need_no_descriptors(void** state) {
    (void)state;
    unsigned before = e2e_open_descriptors();
    e2e now;
    e2e_begin(&now, 1, 1, 32);
    int event = -1;
    assert_int_equal(sl_stream_event_fd(now.stream, &event), SL_OK);
    sl_batch* held[32];
    for (unsigned i = 0; i < 32; i++) {
        held[i] = e2e_next(now.stream);
        assert_true(e2e_open_descriptors() <= before + 8);
    }
    for (unsigned i = 0; i < 32; i++)
        assert_int_equal(sl_batch_release(held[i]), SL_OK);
    e2e_end(&now);
    assert_int_equal(e2e_open_descriptors(), before);
}

const struct CMUnitTest e2e_leases_tests[] = {
    cmocka_unit_test(leases_end_in_any_order_from_any_thread),
    cmocka_unit_test(a_held_batch_keeps_its_bytes_while_others_come_and_go),
    cmocka_unit_test(a_batch_stays_readable_after_its_stream_and_client_are_gone),
    cmocka_unit_test(a_forked_child_is_refused_and_may_connect_anew),
    cmocka_unit_test(a_child_forked_in_the_middle_of_requests_never_hangs),
    cmocka_unit_test(held_batches_need_no_descriptors),
};
const size_t e2e_leases_count = sizeof e2e_leases_tests / sizeof e2e_leases_tests[0];
