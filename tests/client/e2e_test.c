/* The client against the real daemon: streaming, waiting, reporting. SL_PHOTOS names a folder of 40
 * photographs, SPEEDYLOADER_DAEMON the daemon. */
#include "e2e.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void the_first_batch_has_the_shape_type_and_alignment_of_the_spec(void** state) {
    (void)state;
    e2e now;
    e2e_begin(&now, 7, 1, 0);
    sl_batch* batch = e2e_next(now.stream);
    sl_tensor image = {.struct_size = sizeof image};
    assert_int_equal(sl_batch_tensor(batch, "image", &image), SL_OK);
    const int64_t shape[] = {7, 3, 32, 48};
    assert_int_equal(image.dtype, SL_UINT8);
    assert_int_equal(image.ndim, 4);
    assert_memory_equal(image.shape, shape, sizeof shape);
    assert_int_equal(image.bytes, 7 * 3 * 32 * 48);
    uint32_t count = 0;
    assert_int_equal(sl_batch_tensor_count(batch, &count), SL_OK);
    assert_true(count >= 4);
    for (uint32_t i = 0; i < count; i++) {
        sl_tensor tensor = {.struct_size = sizeof tensor};
        assert_int_equal(sl_batch_tensor_at(batch, i, NULL, &tensor), SL_OK);
        assert_int_equal((uintptr_t)tensor.data % 256, 0);
        assert_int_equal(tensor.shape[0], 7);
    }
    sl_tensor label = {.struct_size = sizeof label};
    assert_int_equal(sl_batch_tensor(batch, "label", &label), SL_OK);
    assert_int_equal(label.dtype, SL_INT64);
    assert_int_equal(sl_batch_release(batch), SL_OK);
    e2e_end(&now);
}

/* Counts each valid row by its id. */
static void count_ids(const sl_batch* batch, unsigned* seen) {
    sl_batch_info info = {.struct_size = sizeof info};
    assert_int_equal(sl_batch_get_info(batch, &info), SL_OK);
    for (uint32_t row = 0; row < info.count; row++) {
        sl_sample_info sample = {.struct_size = sizeof sample};
        assert_int_equal(sl_batch_sample(batch, row, &sample), SL_OK);
        if (sample.valid == 0) continue;
        assert_true(sample.sample_id < E2E_PHOTOS);
        seen[sample.sample_id]++;
    }
}

static void each_epoch_gives_each_sample_once_and_then_says_so(void** state) {
    (void)state;
    e2e now;
    e2e_begin(&now, 7, 3, 0);
    sl_stream_info info = {.struct_size = sizeof info};
    assert_int_equal(sl_stream_get_info(now.stream, &info), SL_OK);
    assert_int_equal(info.samples, E2E_PHOTOS);
    assert_int_equal(info.epochs, 3);
    assert_int_equal(info.batches_per_epoch, 6);
    for (unsigned epoch = 0; epoch < 3; epoch++) {
        unsigned seen[E2E_PHOTOS] = {0};
        for (unsigned i = 0; i < 6; i++) {
            sl_batch* batch = e2e_next(now.stream);
            count_ids(batch, seen);
            assert_int_equal(sl_batch_release(batch), SL_OK);
        }
        for (unsigned id = 0; id < E2E_PHOTOS; id++)
            assert_int_equal(seen[id], 1);
        sl_batch* none = NULL;
        assert_int_equal(sl_next(now.stream, E2E_WAIT_MS, &none), SL_END_OF_EPOCH);
        assert_null(none);
    }
    sl_batch* none = NULL;
    assert_int_equal(sl_next(now.stream, E2E_WAIT_MS, &none), SL_END);
    assert_int_equal(sl_next(now.stream, 0, &none), SL_END);
    char* report = NULL;
    assert_int_equal(sl_stream_report(now.stream, &report), SL_OK);
    assert_non_null(strstr(report, "\"epochs\""));
    sl_free(report);
    sl_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(sl_stream_stats(now.stream, &stats), SL_OK);
    assert_int_equal(stats.samples, 3 * E2E_PHOTOS);
    assert_int_equal(stats.batches, 18);
    e2e_end(&now);
}

static uint32_t ready(const sl_stream* stream) {
    sl_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(sl_stream_stats(stream, &stats), SL_OK);
    return stats.ready;
}

static void what_is_ready_are_batches_and_no_ends_of_epochs(void** state) {
    (void)state;
    enum { AN_EPOCH = 10 };
    e2e now;
    e2e_begin(&now, 4, 2, 16); /* room for the whole second epoch */
    for (unsigned i = 0; i < AN_EPOCH; i++)
        assert_int_equal(sl_batch_release(e2e_next(now.stream)), SL_OK);
    /* Now comes the end of the first epoch, and behind it the second. */
    while (ready(now.stream) < AN_EPOCH) {
    }
    sl_batch* none = NULL;
    assert_int_equal(sl_next(now.stream, E2E_WAIT_MS, &none), SL_END_OF_EPOCH);
    assert_int_equal(ready(now.stream), AN_EPOCH);
    for (unsigned left = AN_EPOCH; left-- > 0;) {
        assert_int_equal(sl_batch_release(e2e_next(now.stream)), SL_OK);
        assert_int_equal(ready(now.stream), left);
    }
    assert_int_equal(sl_next(now.stream, E2E_WAIT_MS, &none), SL_END_OF_EPOCH);
    assert_int_equal(ready(now.stream), 0); /* there is an end only */
    assert_int_equal(sl_next(now.stream, E2E_WAIT_MS, &none), SL_END);
    assert_int_equal(ready(now.stream), 0);
    e2e_end(&now);
}

static void a_time_out_of_zero_polls_and_a_longer_one_is_kept(void** state) {
    (void)state;
    e2e now;
    e2e_begin(&now, 4, 1, 2);
    sl_batch* held[2] = {e2e_next(now.stream), e2e_next(now.stream)};
    /* Both slots are leased: nothing can come. */
    sl_batch* none = NULL;
    int64_t start = e2e_now_ms();
    assert_int_equal(sl_next(now.stream, 0, &none), SL_TIMEOUT);
    assert_int_equal(sl_next(now.stream, 120, &none), SL_TIMEOUT);
    assert_in_range(e2e_now_ms() - start, 119, 5000);
    assert_int_equal(sl_batch_release(held[0]), SL_OK);
    held[0] = e2e_next(now.stream);
    assert_int_equal(sl_batch_release(held[0]), SL_OK);
    assert_int_equal(sl_batch_release(held[1]), SL_OK);
    e2e_end(&now);
}

static void the_event_descriptor_tells_of_every_batch(void** state) {
    (void)state;
    e2e now;
    e2e_begin(&now, 4, 1, 2);
    struct pollfd event = {.events = POLLIN};
    assert_int_equal(sl_stream_event_fd(now.stream, &event.fd), SL_OK);
    unsigned batches = 0;
    sl_status status = SL_OK;
    while (status != SL_END) {
        assert_int_equal(poll(&event, 1, E2E_WAIT_MS), 1);
        sl_batch* batch = NULL;
        while ((status = sl_next(now.stream, 0, &batch)) == SL_OK || status == SL_END_OF_EPOCH) {
            if (status == SL_OK) batches++;
            assert_int_equal(sl_batch_release(batch), SL_OK);
        }
        assert_true(status == SL_TIMEOUT || status == SL_END);
    }
    assert_int_equal(batches, 10);
    e2e_end(&now);
}

static void a_sample_stream_gives_single_rows_each_once(void** state) {
    (void)state;
    e2e now = {.client = e2e_connect()};
    now.stream = e2e_open(now.client, e2e_spec(8, 1), 0, SL_LEVEL_SAMPLE);
    unsigned seen[E2E_PHOTOS] = {0};
    sl_batch* batch = NULL;
    assert_int_equal(sl_next(now.stream, 0, &batch), SL_E_INVALID_ARGUMENT);
    for (unsigned i = 0; i < E2E_PHOTOS; i++) {
        sl_sample_info info = {.struct_size = sizeof info};
        assert_int_equal(sl_next_sample(now.stream, E2E_WAIT_MS, &batch, &info), SL_OK);
        assert_true(info.sample_id < E2E_PHOTOS);
        assert_true(info.lane < SL_LANES);
        seen[info.sample_id]++;
        assert_int_equal(sl_batch_release(batch), SL_OK);
    }
    for (unsigned id = 0; id < E2E_PHOTOS; id++)
        assert_int_equal(seen[id], 1);
    assert_int_equal(sl_next_sample(now.stream, E2E_WAIT_MS, &batch, NULL), SL_END_OF_EPOCH);
    e2e_end(&now);
}

static void a_wrong_spec_is_refused_and_the_key_is_named(void** state) {
    (void)state;
    sl_client* client = e2e_connect();
    const char* spec = "{\"dataset\": {\"kind\": \"image_folder\", \"path\": \"/\"}, \"colour\": 1}";
    sl_stream* stream = NULL;
    assert_int_equal(sl_open(client, spec, strlen(spec), NULL, &stream), SL_E_SPEC);
    e2e_assert_says("colour");
    assert_null(stream);
    assert_int_equal(sl_disconnect(client), SL_OK);
}

int main(void) {
    char name[32];
    snprintf(name, sizeof name, "e2e-%d", (int)getpid());
    setenv("SPEEDYLOADER_PRIVATE_NAME", name, 1);
    if (getenv("SL_PHOTOS") == NULL) {
        fputs("SL_PHOTOS names no folder of photographs\n", stderr);
        return 1;
    }
    const struct CMUnitTest streaming[] = {
        cmocka_unit_test(the_first_batch_has_the_shape_type_and_alignment_of_the_spec),
        cmocka_unit_test(each_epoch_gives_each_sample_once_and_then_says_so),
        cmocka_unit_test(what_is_ready_are_batches_and_no_ends_of_epochs),
        cmocka_unit_test(a_time_out_of_zero_polls_and_a_longer_one_is_kept),
        cmocka_unit_test(the_event_descriptor_tells_of_every_batch),
        cmocka_unit_test(a_sample_stream_gives_single_rows_each_once),
        cmocka_unit_test(a_wrong_spec_is_refused_and_the_key_is_named),
    };
    int failed = cmocka_run_group_tests_name("streaming", streaming, NULL, NULL);
    failed += _cmocka_run_group_tests("leases", e2e_leases_tests, e2e_leases_count, NULL, NULL);
    failed += _cmocka_run_group_tests("writes", e2e_writes_tests, e2e_writes_count, NULL, NULL);
    failed += _cmocka_run_group_tests("drops", e2e_writes_drop_tests, e2e_writes_drop_count, NULL, NULL);
    failed += _cmocka_run_group_tests("positions", e2e_position_tests, e2e_position_count, NULL, NULL);
    failed += _cmocka_run_group_tests("daemon", e2e_daemon_tests, e2e_daemon_count, NULL, NULL);
    failed += _cmocka_run_group_tests("restarts", e2e_restart_tests, e2e_restart_count, NULL, NULL);
    return failed;
}
