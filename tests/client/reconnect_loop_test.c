/* Reconnection where several threads, several streams or an event loop use one client, and its ends. */
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>

#include "reconnect.h"

static unsigned descriptors(void) {
    unsigned count = 0;
    DIR* open_now = opendir("/proc/self/fd");
    while (readdir(open_now) != NULL)
        count++;
    closedir(open_now);
    return count;
}

static int readable(int fd, int timeout_ms) {
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    return poll(&entry, 1, timeout_ms);
}

static void an_event_loop_is_told_of_the_loss_and_finds_the_next_daemon(void** state) {
    (void)state;
    restart now;
    restart_begin(&now, 0);
    int fd = -1;
    sl_batch* batch = NULL;
    assert_int_equal(sl_stream_event_fd(now.stream, &fd), SL_OK);
    restart_take(&now, &now.memory, 0);
    assert_int_equal(sl_next(now.stream, 0, &batch), SL_TIMEOUT);
    assert_int_equal(readable(fd, 0), 0);
    restart_kill(&now);
    assert_int_equal(readable(fd, 1000), 1);
    int rounds = 0;
    for (int64_t until = restart_now_ms() + 200; restart_now_ms() < until; rounds++) {
        assert_int_equal(sl_next(now.stream, 0, &batch), SL_TIMEOUT);
        assert_int_equal(readable(fd, 1000), 1);
    }
    assert_in_range(rounds, 2, 20); /* it looks at intervals, and does not spin */
    restart_follow(&now, 1);
    sl_status status = SL_TIMEOUT;
    while (status == SL_TIMEOUT) {
        assert_int_equal(readable(fd, 5000), 1);
        status = sl_next(now.stream, 0, &batch);
    }
    assert_int_equal(status, SL_OK);
    assert_int_equal(sl_batch_release(batch), SL_OK);
    assert_int_equal(sl_next(now.stream, 0, &batch), SL_TIMEOUT);
    assert_int_equal(readable(fd, 0), 0);
    assert_int_equal(__atomic_load_n(&now.next.returns->wants_event, __ATOMIC_ACQUIRE), 1);
    restart_publish(&now.next, 2, 1);
    assert_int_equal(readable(fd, 1000), 1);
    assert_int_equal(sl_next(now.stream, 0, &batch), SL_OK);
    assert_int_equal(sl_batch_release(batch), SL_OK);
    restart_end(&now);
}

static void descriptors_are_as_many_after_ten_daemons_as_after_one(void** state) {
    (void)state;
    restart now;
    restart_begin(&now, 0);
    int fd = -1;
    assert_int_equal(sl_stream_event_fd(now.stream, &fd), SL_OK);
    restart_take(&now, &now.memory, 0);
    unsigned before = 0;
    for (unsigned round = 1; round <= 10; round++) {
        restart_kill(&now);
        if (round > 1) segment_free(&now.next);
        restart_follow(&now, round);
        sl_batch* batch = NULL;
        assert_int_equal(sl_next(now.stream, 5000, &batch), SL_OK);
        assert_int_equal(sl_batch_release(batch), SL_OK);
        if (round == 1) before = descriptors();
    }
    assert_int_equal(descriptors(), before);
    restart_end(&now);
}

typedef struct taker {
    sl_stream* stream;
    sl_status status;
    uint64_t batch;
} taker;

static void* take_one(void* argument) {
    taker* one = argument;
    sl_batch* batch = NULL;
    one->status = sl_next(one->stream, 5000, &batch);
    sl_batch_info info = {.struct_size = sizeof info};
    if (one->status == SL_OK && sl_batch_get_info(batch, &info) == SL_OK) one->batch = info.batch;
    (void)sl_batch_release(batch);
    return NULL;
}

static void* look(void* argument) {
    taker* one = argument;
    sl_stats stats = {.struct_size = sizeof stats};
    sl_stream_info info = {.struct_size = sizeof info};
    while (sl_stream_stats(one->stream, &stats) == SL_OK && stats.reconnects == 0)
        one->status = sl_stream_get_info(one->stream, &info);
    return NULL;
}

static void the_streams_of_a_client_go_on_over_one_connection(void** state) {
    (void)state;
    restart now;
    restart_begin(&now, 0);
    sl_stream* other = NULL;
    assert_int_equal(sl_open(now.client, "{}", 2, NULL, &other), SL_OK);
    restart_kill(&now);
    segment second;
    restart_prepare(&now, 0);
    second = now.next; /* the same again, of its own */
    restart_prepare(&now, 0);
    now.one.second = &second;
    peer_start(&now.one, &now.next);
    taker takers[3] = {{.stream = now.stream}, {.stream = other}, {.stream = now.stream}};
    pthread_t threads[3];
    assert_int_equal(pthread_create(&threads[2], NULL, look, &takers[2]), 0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_one, &takers[i]), 0);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(takers[i].status, SL_OK);
    assert_int_equal(sl_close(other), SL_OK);
    restart_end(&now); /* the peer serves one connection: that was enough */
    segment_free(&second);
    assert_int_equal(now.one.opens, 2);
}

static void a_disconnect_ends_the_search_of_another_thread(void** state) {
    (void)state;
    restart now;
    restart_begin(&now, SL_WAIT_FOREVER);
    restart_kill(&now);
    taker one = {.stream = now.stream};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, take_one, &one), 0);
    poll(NULL, 0, 50); /* it may have begun; the promise holds either way */
    int64_t start = restart_now_ms();
    assert_int_equal(sl_disconnect(now.client), SL_OK);
    now.client = NULL;
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_in_range(restart_now_ms() - start, 0, 1000);
    assert_int_equal(one.status, SL_E_DISCONNECTED);
    restart_end(&now);
}

static void a_stream_may_be_closed_in_the_middle_of_it(void** state) {
    (void)state;
    unsigned before = descriptors();
    restart now;
    restart_begin(&now, 0);
    restart_kill(&now);
    now.one.mute_from = SL_MSG_OPEN; /* it greets, and does not answer the opening */
    restart_follow(&now, 0);
    sl_batch* none = NULL;
    assert_int_equal(sl_next(now.stream, 200, &none), SL_TIMEOUT);
    restart_end(&now);
    assert_int_equal(descriptors(), before);
}

static void a_report_of_a_daemon_that_has_gone_is_not_anothers(void** state) {
    (void)state;
    restart now;
    restart_begin(&now, 0);
    sl_stream* other = NULL;
    assert_int_equal(sl_open(now.client, "{}", 2, NULL, &other), SL_OK);
    restart_kill(&now);
    restart_follow(&now, 0);
    sl_batch* batch = NULL;
    assert_int_equal(sl_next(now.stream, 5000, &batch), SL_OK);
    assert_int_equal(sl_batch_release(batch), SL_OK);
    char* json = NULL;
    assert_int_equal(sl_stream_report(other, &json), SL_E_DISCONNECTED); /* both have the number 5 */
    assert_int_equal(sl_close(other), SL_OK);
    restart_end(&now);
    assert_int_equal(now.one.closes, 1); /* and the other's end was not taken for this one's */
}

static void an_opening_on_a_lost_connection_makes_another_one(void** state) {
    (void)state;
    restart now;
    restart_begin(&now, 0);
    restart_kill(&now);
    restart_follow(&now, 0);
    sl_stream* other = NULL;
    assert_int_equal(sl_open(now.client, "{}", 2, NULL, &other), SL_OK);
    assert_int_equal(sl_close(other), SL_OK);
    restart_end(&now);
}

const struct CMUnitTest reconnect_loop_tests[] = {
    cmocka_unit_test(an_event_loop_is_told_of_the_loss_and_finds_the_next_daemon),
    cmocka_unit_test(descriptors_are_as_many_after_ten_daemons_as_after_one),
    cmocka_unit_test(the_streams_of_a_client_go_on_over_one_connection),
    cmocka_unit_test(a_disconnect_ends_the_search_of_another_thread),
    cmocka_unit_test(a_stream_may_be_closed_in_the_middle_of_it),
    cmocka_unit_test(a_report_of_a_daemon_that_has_gone_is_not_anothers),
    cmocka_unit_test(an_opening_on_a_lost_connection_makes_another_one),
};
const size_t reconnect_loop_count = sizeof reconnect_loop_tests / sizeof reconnect_loop_tests[0];
