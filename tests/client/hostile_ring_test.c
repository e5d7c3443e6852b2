/* A daemon that lies in the ring, stops a stream or dies, over honest memory: each is a status, none is a
 * crash. */
#include <poll.h>
#include <speedyloader/speedyloader.h>
#include <string.h>
#include <time.h>

#include "cmocka_c.h"
#include "peer.h"

static sl_status connect_to(const peer* one, int64_t timeout_ms, sl_client** client) {
    sl_connect_options options = {.struct_size = sizeof options,
                                  .socket = one->path,
                                  .timeout_ms = timeout_ms,
                                  .reconnect_ms = SL_NO_RECONNECT};
    return sl_connect(&options, client);
}

static sl_status open_stream(sl_client* client, sl_stream** stream) {
    return sl_open(client, "{}", 2, NULL, stream);
}

static void assert_says(const char* part) {
    sl_error error = {.struct_size = sizeof error};
    sl_last_error(&error);
    if (strstr(error.message, part) == NULL) fail_msg("\"%s\" does not say \"%s\"", error.message, part);
}

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

typedef struct session {
    segment memory;
    peer one;
    sl_client* client;
    sl_stream* stream;
} session;

static int begin(void** state) {
    static session running;
    session* now = &running;
    *state = now;
    segment_make(&now->memory);
    segment_seal(&now->memory);
    now->one = (peer){0};
    peer_start(&now->one, &now->memory);
    if (connect_to(&now->one, 0, &now->client) != SL_OK) return 1;
    return open_stream(now->client, &now->stream) == SL_OK ? 0 : 1;
}

static int end(void** state) {
    session* now = *state;
    sl_close(now->stream);
    sl_disconnect(now->client);
    peer_stop(&now->one);
    segment_free(&now->memory);
    return 0;
}

static void an_honest_batch_is_described_whole(void** state) {
    session* now = *state;
    sl_batch* batch = NULL;
    assert_int_equal(sl_next(now->stream, 0, &batch), SL_TIMEOUT);
    segment_publish(&now->memory, &(sl_shm_descriptor){.kind = SL_DESCRIPTOR_BATCH,
                                                       .slot = 1,
                                                       .generation = 77,
                                                       .count = 2,
                                                       .epoch = 3,
                                                       .batch = 4,
                                                       .step = 5});
    assert_int_equal(sl_next(now->stream, 0, &batch), SL_OK);
    sl_tensor image = {.struct_size = sizeof image};
    assert_int_equal(sl_batch_tensor(batch, "image", &image), SL_OK);
    assert_int_equal(image.ndim, 4);
    const int64_t shape[] = {2, 3, 7, 5}; /* two rows of three: the third is void */
    const int64_t strides[] = {105, 35, 5, 1};
    assert_memory_equal(image.shape, shape, sizeof shape);
    assert_memory_equal(image.strides, strides, sizeof strides);
    assert_int_equal(image.bytes, 2 * 105);
    assert_int_equal((uintptr_t)image.data % 256, 0);
    sl_tensor none = {.struct_size = sizeof none};
    assert_int_equal(sl_batch_tensor(batch, "imago", &none), SL_E_NOT_FOUND);
    assert_says("image label");
    sl_batch_info info = {.struct_size = sizeof info};
    assert_int_equal(sl_batch_get_info(batch, &info), SL_OK);
    assert_true(info.count == 2 && info.epoch == 3 && info.batch == 4 && info.step == 5);
    sl_sample_info row = {.struct_size = sizeof row};
    assert_int_equal(sl_batch_sample(batch, 2, &row), SL_E_NOT_FOUND);
    assert_int_equal(sl_batch_release(batch), SL_OK);
    assert_int_equal(now->memory.returns->generation[1], 77);
    assert_int_equal(now->memory.returns->consumed, 1);
    assert_int_equal(sl_batch_release(batch), SL_E_INVALID_ARGUMENT);
}

static void assert_broken(session* now, const sl_shm_descriptor* descriptor) {
    sl_batch* batch = NULL;
    segment_publish(&now->memory, descriptor);
    assert_int_equal(sl_next(now->stream, 0, &batch), SL_E_PROTOCOL);
    assert_null(batch);
    assert_int_equal(sl_next(now->stream, 0, &batch), SL_E_PROTOCOL); /* and for ever after */
}

static void a_slot_that_does_not_exist_breaks_the_stream(void** state) {
    assert_broken(*state,
                  &(sl_shm_descriptor){.kind = SL_DESCRIPTOR_BATCH, .slot = SEGMENT_SLOTS, .count = 1});
}

static void more_rows_than_a_batch_has_break_the_stream(void** state) {
    assert_broken(*state, &(sl_shm_descriptor){.kind = SL_DESCRIPTOR_BATCH, .count = SEGMENT_ROWS + 1});
}

static void a_descriptor_of_unknown_kind_breaks_the_stream(void** state) {
    assert_broken(*state, &(sl_shm_descriptor){.kind = 99});
}

static void a_leased_slot_given_again_breaks_the_stream(void** state) {
    session* now = *state;
    const sl_shm_descriptor descriptor = {.kind = SL_DESCRIPTOR_BATCH, .slot = 1, .count = 1};
    sl_batch* batch = NULL;
    segment_publish(&now->memory, &descriptor);
    assert_int_equal(sl_next(now->stream, 0, &batch), SL_OK);
    assert_broken(now, &descriptor);
    assert_int_equal(sl_batch_release(batch), SL_OK);
}

static void the_error_page_becomes_the_last_error_at_every_later_call(void** state) {
    session* now = *state;
    sl_shm_stream_error page = {.status = SL_E_SAMPLE, .sample_kind = 7, .sample_id = 41, .offset = 99};
    strcpy(page.path, "/data/broken.jpg");
    strcpy(page.message, "the file ends in the middle of a scan");
    memcpy(now->memory.memory + SL_SHM_ERROR_OFFSET, &page, sizeof page);
    segment_publish(&now->memory, &(sl_shm_descriptor){.kind = SL_DESCRIPTOR_ERROR});
    for (int i = 0; i < 2; i++) {
        sl_batch* batch = NULL;
        assert_int_equal(sl_next(now->stream, 0, &batch), SL_E_SAMPLE);
        sl_error error = {.struct_size = sizeof error};
        sl_last_error(&error);
        assert_int_equal(error.code, SL_E_SAMPLE);
        assert_int_equal(error.sample_kind, 7);
        assert_int_equal(error.sample_id, 41);
        assert_int_equal(error.offset, 99);
        assert_string_equal(error.path, page.path);
        assert_string_equal(error.message, page.message);
    }
}

static void the_end_is_said_again_at_every_call(void** state) {
    session* now = *state;
    sl_batch* batch = NULL;
    segment_publish(&now->memory, &(sl_shm_descriptor){.kind = SL_DESCRIPTOR_END_OF_EPOCH});
    segment_publish(&now->memory, &(sl_shm_descriptor){.kind = SL_DESCRIPTOR_END});
    assert_int_equal(sl_next(now->stream, 0, &batch), SL_END_OF_EPOCH);
    assert_int_equal(sl_next(now->stream, 0, &batch), SL_END);
    assert_int_equal(sl_next(now->stream, 0, &batch), SL_END);
}

static void a_wait_ends_when_its_time_is_up_and_is_counted(void** state) {
    session* now = *state;
    sl_batch* batch = NULL;
    int64_t start = now_ms();
    assert_int_equal(sl_next(now->stream, 300, &batch), SL_TIMEOUT); /* longer than a slice */
    assert_in_range(now_ms() - start, 299, 5000);
    sl_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(sl_stream_stats(now->stream, &stats), SL_OK);
    assert_in_range(stats.wait_ns, 299000000, 5000000000);
    assert_int_equal(stats.waits, 1);
}

static void a_daemon_that_dies_ends_a_wait_within_a_second(void** state) {
    session* now = *state;
    sl_batch* batch = NULL;
    peer_hang_up(&now->one);
    int64_t start = now_ms();
    assert_int_equal(sl_next(now->stream, SL_WAIT_FOREVER, &batch), SL_E_DISCONNECTED);
    assert_in_range(now_ms() - start, 0, 1000);
}

static void what_a_dead_daemon_has_published_is_still_given(void** state) {
    session* now = *state;
    sl_batch* batch = NULL;
    segment_publish(&now->memory, &(sl_shm_descriptor){.kind = SL_DESCRIPTOR_BATCH, .count = 1});
    peer_hang_up(&now->one);
    assert_int_equal(sl_next(now->stream, 0, &batch), SL_OK);
    assert_int_equal(sl_batch_release(batch), SL_OK);
    assert_int_equal(sl_next(now->stream, SL_WAIT_FOREVER, &batch), SL_E_DISCONNECTED);
}

static int readable(int fd) {
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    return poll(&entry, 1, 0);
}

static void the_event_descriptor_is_readable_while_there_is_something_to_take(void** state) {
    session* now = *state;
    sl_batch* batch = NULL;
    const sl_shm_descriptor end_of_epoch = {.kind = SL_DESCRIPTOR_END_OF_EPOCH};
    int fd = -1;
    segment_publish(&now->memory, &end_of_epoch); /* before anybody asked for events */
    assert_int_equal(sl_stream_event_fd(now->stream, &fd), SL_OK);
    assert_int_equal(readable(fd), 1);
    assert_int_equal(sl_next(now->stream, 0, &batch), SL_END_OF_EPOCH);
    assert_int_equal(sl_next(now->stream, 0, &batch), SL_TIMEOUT);
    assert_int_equal(readable(fd), 0);
    segment_publish(&now->memory, &end_of_epoch);
    assert_int_equal(readable(fd), 1);
    assert_int_equal(sl_next(now->stream, 0, &batch), SL_END_OF_EPOCH);
    assert_int_equal(sl_next(now->stream, 0, &batch), SL_TIMEOUT);
    peer_hang_up(&now->one);
    assert_int_equal(readable(fd), 1); /* a dead daemon is an event too */
    assert_int_equal(sl_next(now->stream, 0, &batch), SL_E_DISCONNECTED);
}

#define IN_SESSION(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_SESSION(an_honest_batch_is_described_whole),
        IN_SESSION(a_slot_that_does_not_exist_breaks_the_stream),
        IN_SESSION(more_rows_than_a_batch_has_break_the_stream),
        IN_SESSION(a_descriptor_of_unknown_kind_breaks_the_stream),
        IN_SESSION(a_leased_slot_given_again_breaks_the_stream),
        IN_SESSION(the_error_page_becomes_the_last_error_at_every_later_call),
        IN_SESSION(the_end_is_said_again_at_every_call),
        IN_SESSION(a_wait_ends_when_its_time_is_up_and_is_counted),
        IN_SESSION(a_daemon_that_dies_ends_a_wait_within_a_second),
        IN_SESSION(what_a_dead_daemon_has_published_is_still_given),
        IN_SESSION(the_event_descriptor_is_readable_while_there_is_something_to_take),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
