/* A lost daemon and its successor, as a client meets them: positions, patience, time-outs, refusals, and what
 * is not tried again for ever. */
#include "reconnect.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static sl_stats stats_of(const sl_stream* stream) {
    sl_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(sl_stream_stats(stream, &stats), SL_OK);
    return stats;
}

static void a_stream_goes_on_at_the_batch_that_is_due(void** state) {
    (void)state;
    restart now;
    restart_begin(&now, 0);
    restart_take(&now, &now.memory, 0);
    restart_kill(&now);
    now.one.version = "next";
    restart_follow(&now, 1);
    sl_batch* batch = NULL;
    assert_int_equal(sl_next(now.stream, SL_WAIT_FOREVER, &batch), SL_OK);
    sl_batch_info info = {.struct_size = sizeof info};
    assert_int_equal(sl_batch_get_info(batch, &info), SL_OK);
    assert_int_equal(info.batch, 1);
    assert_int_equal(sl_batch_release(batch), SL_OK);
    assert_int_equal(stats_of(now.stream).reconnects, 1);
    const char* version = NULL;
    assert_int_equal(sl_daemon_version(now.client, &version), SL_OK);
    assert_string_equal(version, "next");
    sl_stream_info sizes = {.struct_size = sizeof sizes};
    assert_int_equal(sl_stream_get_info(now.stream, &sizes), SL_OK);
    assert_int_equal(sizes.first_batch, 0); /* the stream's, not the daemon's */
    restart_end(&now);
    assert_int_equal(now.one.opens, 1);
    assert_non_null(strstr(now.one.state, "\"epoch\":0,\"batch\":1}"));
}

static void held_batches_stay_readable_and_go_back_in_any_order(void** state) {
    (void)state;
    restart now;
    restart_begin(&now, 0);
    now.memory.memory[4 * 4096] = 77; /* the first byte of slot 0 */
    restart_publish(&now.memory, 0, 0);
    sl_batch* old = NULL;
    sl_batch* new = NULL;
    assert_int_equal(sl_next(now.stream, 5000, &old), SL_OK);
    restart_kill(&now);
    restart_follow(&now, 1);
    assert_int_equal(sl_next(now.stream, 5000, &new), SL_OK);
    sl_tensor image = {.struct_size = sizeof image};
    assert_int_equal(sl_batch_tensor(old, "image", &image), SL_OK);
    assert_int_equal(*(const uint8_t*)image.data, 77);
    assert_int_equal(sl_batch_release(new), SL_OK);
    assert_int_equal(sl_close(now.stream), SL_OK);
    assert_int_equal(*(const uint8_t*)image.data, 77);
    assert_int_equal(sl_batch_release(old), SL_OK);
    now.stream = NULL;
    assert_int_equal(now.next.returns->generation[0], 2); /* the old return went to the old page */
    restart_end(&now);
}

static void what_the_old_daemon_had_published_comes_first(void** state) {
    (void)state;
    restart now;
    restart_begin(&now, 0);
    restart_publish(&now.memory, 0, 0);
    restart_publish(&now.memory, 1, 1);
    restart_kill(&now);
    restart_follow(&now, 2);
    for (uint64_t due = 0; due < 3; due++) {
        sl_batch* batch = NULL;
        assert_int_equal(sl_next(now.stream, 5000, &batch), SL_OK);
        sl_batch_info info = {.struct_size = sizeof info};
        assert_int_equal(sl_batch_get_info(batch, &info), SL_OK);
        assert_int_equal(info.batch, due);
        assert_int_equal(sl_batch_release(batch), SL_OK);
    }
    restart_end(&now);
}

static void a_queue_before_a_daemon_that_is_starting_is_no_lost_patience(void** state) {
    (void)state;
    restart now;
    restart_begin(&now, 50);
    restart_take(&now, &now.memory, 0);
    restart_kill(&now);
    restart_prepare(&now, 1);
    peer_listen(&now.one);
    sl_batch* batch = NULL;
    assert_int_equal(sl_next(now.stream, 200, &batch), SL_TIMEOUT); /* four patiences */
    peer_serve(&now.one, &now.next);
    assert_int_equal(sl_next(now.stream, 5000, &batch), SL_OK);
    assert_int_equal(sl_batch_release(batch), SL_OK);
    restart_end(&now);
}

static void patience_ends_and_the_next_call_has_a_new_one(void** state) {
    (void)state;
    restart now;
    restart_begin(&now, 100);
    restart_take(&now, &now.memory, 0);
    restart_kill(&now);
    for (unsigned round = 0; round < 2; round++) {
        sl_batch* none = NULL;
        int64_t start = restart_now_ms();
        assert_int_equal(sl_next(now.stream, SL_WAIT_FOREVER, &none), SL_E_DISCONNECTED);
        assert_in_range(restart_now_ms() - start, 99, 2000);
        restart_says("there is no other");
    }
    restart_follow(&now, 1);
    sl_batch* batch = NULL;
    assert_int_equal(sl_next(now.stream, SL_WAIT_FOREVER, &batch), SL_OK);
    assert_int_equal(sl_batch_release(batch), SL_OK);
    restart_end(&now);
}

static void a_call_takes_no_longer_than_its_time_out_while_a_daemon_is_looked_for(void** state) {
    (void)state;
    restart now;
    restart_begin(&now, 400);
    restart_take(&now, &now.memory, 0);
    restart_kill(&now);
    sl_batch* none = NULL;
    int64_t start = restart_now_ms();
    assert_int_equal(sl_next(now.stream, 120, &none), SL_TIMEOUT);
    assert_in_range(restart_now_ms() - start, 119, 350);
    assert_int_equal(sl_next(now.stream, 0, &none), SL_TIMEOUT);
    /* Patience is one for all the calls together. */
    assert_int_equal(restart_next(now.stream, 20, &none), SL_E_DISCONNECTED);
    assert_in_range(restart_now_ms() - start, 399, 3000);
    restart_end(&now);
}

static void polling_without_waiting_finds_the_next_daemon_too(void** state) {
    (void)state;
    restart now;
    restart_begin(&now, 0);
    restart_take(&now, &now.memory, 0);
    restart_kill(&now);
    restart_follow(&now, 1);
    sl_batch* batch = NULL;
    assert_int_equal(restart_next(now.stream, 0, &batch), SL_OK);
    assert_int_equal(sl_batch_release(batch), SL_OK);
    restart_end(&now);
}

static void three_daemons_that_are_lost_without_a_batch_are_enough(void** state) {
    (void)state;
    restart now;
    restart_begin(&now, 2000);
    restart_take(&now, &now.memory, 0);
    restart_kill(&now);
    now.one.hangs_up_at = SL_MSG_OPEN;
    now.one.clients = 10;
    restart_follow(&now, 1);
    sl_batch* none = NULL;
    assert_int_equal(restart_next(now.stream, 5000, &none), SL_E_DISCONNECTED);
    restart_says("3 times in a row");
    assert_int_equal(sl_next(now.stream, 5000, &none), SL_E_DISCONNECTED);
    restart_says("3 times in a row");
    restart_end(&now);
    assert_int_equal(now.one.opens, 3);
}

static void the_end_of_an_epoch_is_said_once_whoever_says_it(void** state) {
    (void)state;
    restart now;
    restart_begin(&now, 0);
    for (uint64_t batch = 0; batch < BATCHES; batch++)
        restart_take(&now, &now.memory, batch);
    restart_kill(&now);
    sl_batch* batch = NULL;
    assert_int_equal(sl_next(now.stream, 0, &batch), SL_END_OF_EPOCH); /* nobody needs to be asked */
    restart_prepare(&now, 0);
    segment_header(&now.next)->first_epoch = 1;
    peer_start(&now.one, &now.next);
    assert_int_equal(sl_next(now.stream, 5000, &batch), SL_OK);
    assert_int_equal(sl_batch_release(batch), SL_OK);
    for (uint64_t due = 1; due < BATCHES; due++)
        restart_take(&now, &now.next, due);
    restart_kill(&now);
    assert_int_equal(sl_next(now.stream, 0, &batch), SL_END_OF_EPOCH);
    assert_int_equal(sl_next(now.stream, 0, &batch), SL_END); /* all is known without a daemon */
    assert_int_equal(sl_next(now.stream, SL_WAIT_FOREVER, &batch), SL_END);
    restart_end(&now);
}

static void what_the_next_daemon_says_to_the_stream_is_told_and_stays(void** state) {
    (void)state;
    restart now;
    restart_begin(&now, 0);
    restart_take(&now, &now.memory, 0);
    restart_kill(&now);
    now.one.refuse = SL_E_SPEC;
    restart_follow(&now, 1);
    sl_batch* none = NULL;
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(sl_next(now.stream, 5000, &none), SL_E_SPEC);
        restart_says("the peer says no");
    }
    restart_end(&now);
    assert_int_equal(now.one.opens, 1);
}

static void a_shortage_is_told_and_the_next_call_asks_again(void** state) {
    (void)state;
    restart now;
    restart_begin(&now, 0);
    restart_take(&now, &now.memory, 0);
    restart_kill(&now);
    now.one.refuse = SL_E_BUDGET;
    restart_follow(&now, 1);
    sl_batch* none = NULL;
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(sl_next(now.stream, 5000, &none), SL_E_BUDGET);
        restart_says("the peer says no");
    }
    restart_end(&now);
    assert_int_equal(now.one.opens, 5);
}

static void another_stream_than_the_one_that_was_lost_is_not_taken(void** state) {
    (void)state;
    restart now;
    restart_begin(&now, 0);
    restart_take(&now, &now.memory, 0);
    restart_kill(&now);
    restart_follow(&now, 3); /* a batch too far */
    sl_batch* none = NULL;
    assert_int_equal(sl_next(now.stream, 5000, &none), SL_E_PROTOCOL);
    restart_says("begins at another batch");
    restart_end(&now);
    assert_int_equal(now.one.closes >= 1, 1); /* and it holds no memory there */
}

static void a_child_never_connects_its_parents_handle(void** state) {
    (void)state;
    restart now;
    restart_begin(&now, 0);
    restart_take(&now, &now.memory, 0);
    restart_kill(&now);
    sl_batch* batch = NULL;
    assert_int_equal(sl_next(now.stream, 30, &batch), SL_TIMEOUT); /* in the middle of it */
    pid_t child = fork();
    if (child == 0) _exit(sl_next(now.stream, 1000, &batch) == SL_E_FORKED ? 0 : 1);
    int ended = 0;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
    restart_follow(&now, 1);
    assert_int_equal(sl_next(now.stream, 5000, &batch), SL_OK);
    assert_int_equal(sl_batch_release(batch), SL_OK);
    restart_end(&now);
}

static void a_patience_that_means_nothing_is_refused(void** state) {
    (void)state;
    sl_client* client = NULL;
    sl_connect_options options = {.struct_size = sizeof options, .socket = "nobody.sock", .reconnect_ms = -3};
    assert_int_equal(sl_connect(&options, &client), SL_E_INVALID_ARGUMENT);
    restart_says("reconnect_ms is -3");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_goes_on_at_the_batch_that_is_due),
        cmocka_unit_test(held_batches_stay_readable_and_go_back_in_any_order),
        cmocka_unit_test(what_the_old_daemon_had_published_comes_first),
        cmocka_unit_test(a_queue_before_a_daemon_that_is_starting_is_no_lost_patience),
        cmocka_unit_test(patience_ends_and_the_next_call_has_a_new_one),
        cmocka_unit_test(a_call_takes_no_longer_than_its_time_out_while_a_daemon_is_looked_for),
        cmocka_unit_test(polling_without_waiting_finds_the_next_daemon_too),
        cmocka_unit_test(three_daemons_that_are_lost_without_a_batch_are_enough),
        cmocka_unit_test(the_end_of_an_epoch_is_said_once_whoever_says_it),
        cmocka_unit_test(what_the_next_daemon_says_to_the_stream_is_told_and_stays),
        cmocka_unit_test(a_shortage_is_told_and_the_next_call_asks_again),
        cmocka_unit_test(another_stream_than_the_one_that_was_lost_is_not_taken),
        cmocka_unit_test(a_child_never_connects_its_parents_handle),
        cmocka_unit_test(a_patience_that_means_nothing_is_refused),
    };
    int failed = cmocka_run_group_tests_name("reconnection", tests, NULL, NULL);
    return failed + _cmocka_run_group_tests("threads and loops", reconnect_loop_tests, reconnect_loop_count,
                                            NULL, NULL);
}
