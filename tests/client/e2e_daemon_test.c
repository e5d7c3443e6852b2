/* The private daemon's life: one for all, nobody's child, gone after its last client, and missed when it
 * dies. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e.h"

static void assert_daemon_leaves_within(int64_t ms) {
    int64_t deadline = e2e_now_ms() + ms;
    while (e2e_daemon_processes(0) > 0) {
        if (e2e_now_ms() > deadline) fail_msg("%d processes of the daemon are left", e2e_daemon_processes(0));
        poll(NULL, 0, 20); /* the end of a process that is no child gives no event; the deadline decides */
    }
}

static void the_daemon_leaves_within_five_seconds_of_its_last_client(void** state) {
    (void)state;
    e2e now;
    e2e_begin(&now, 4, 1, 0);
    assert_int_equal(sl_batch_release(e2e_next(now.stream)), SL_OK);
    assert_true(e2e_daemon_processes(0) > 0);
    e2e_end(&now);
    assert_daemon_leaves_within(5000);
}

static void the_daemon_is_no_child_of_the_program(void** state) {
    (void)state;
    sl_client* client = e2e_connect();
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_equal(sl_disconnect(client), SL_OK);
}

static void* connect_and_ask(void* unused) {
    (void)unused;
    sl_client* client = NULL;
    char* status = NULL;
    sl_connect_options options = {
        .struct_size = sizeof options, .flags = SL_CONNECT_PRIVATE, .timeout_ms = 30000};
    if (sl_connect(&options, &client) != SL_OK) return (void*)1;
    void* result = sl_client_status(client, &status) == SL_OK ? NULL : (void*)2;
    sl_free(status);
    sl_disconnect(client);
    return result;
}

static void many_threads_that_connect_at_once_all_succeed(void** state) {
    (void)state;
    assert_daemon_leaves_within(5000); /* so that they race to start one */
    pthread_t threads[8];
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, connect_and_ask, NULL), 0);
    for (unsigned i = 0; i < 8; i++) {
        void* failed = NULL;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
}

static void a_killed_daemon_is_noticed_and_held_batches_survive_it(void** state) {
    (void)state;
    e2e now;
    e2e_begin_with(&now, SL_NO_RECONNECT, 4, 1, 2);
    sl_batch* first = e2e_next(now.stream);
    sl_batch* second = e2e_next(now.stream);
    uint64_t sum = e2e_sum(first, "image");
    assert_true(e2e_daemon_processes(SIGKILL) > 0);
    sl_batch* none = NULL;
    int64_t start = e2e_now_ms();
    assert_int_equal(sl_next(now.stream, SL_WAIT_FOREVER, &none), SL_E_DISCONNECTED);
    assert_in_range(e2e_now_ms() - start, 0, 2000);
    assert_true(e2e_sum(first, "image") == sum);
    assert_int_equal(sl_batch_release(second), SL_OK);
    assert_int_equal(sl_batch_release(first), SL_OK);
    e2e_end(&now);
    /* And the next one starts at once. */
    sl_client* client = e2e_connect();
    assert_int_equal(sl_disconnect(client), SL_OK);
}

static void the_daemons_version_is_told(void** state) {
    (void)state;
    sl_client* client = e2e_connect();
    const char* version = NULL;
    assert_int_equal(sl_daemon_version(client, &version), SL_OK);
    assert_string_equal(version, sl_version());
    assert_int_equal(sl_disconnect(client), SL_OK);
}

const struct CMUnitTest e2e_daemon_tests[] = {
    cmocka_unit_test(the_daemon_leaves_within_five_seconds_of_its_last_client),
    cmocka_unit_test(the_daemon_is_no_child_of_the_program),
    cmocka_unit_test(many_threads_that_connect_at_once_all_succeed),
    cmocka_unit_test(a_killed_daemon_is_noticed_and_held_batches_survive_it),
    cmocka_unit_test(the_daemons_version_is_told),
};
const size_t e2e_daemon_count = sizeof e2e_daemon_tests / sizeof e2e_daemon_tests[0];
