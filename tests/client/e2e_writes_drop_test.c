/* Writing to leased batches: what was written ends with the lease, however it was written and wherever the
 * lease ends. */
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "e2e_writes.h"

static void a_few_bytes_here_and_there_are_dropped_like_a_whole_batch(void** state) {
    (void)state;
    pair now;
    begin_large_pair(&now);
    for (unsigned step = 1; step < 40; step += 3) { /* that many pages apart, and the tensor's last byte */
        sl_batch* ours = next_in_any_epoch(now.writer.stream);
        sl_batch* theirs = next_in_any_epoch(now.reader.stream);
        assert_same(ours, theirs);
        assert_int_equal(sl_batch_allow_writes(ours), SL_OK);
        bytes mine = tensor_bytes(ours, "image");
        for (uint64_t at = 0; at < mine.count; at += step * 4096)
            mine.at[at]++;
        mine.at[mine.count - 1]++;
        assert_int_equal(sl_batch_release(ours), SL_OK);
        assert_int_equal(sl_batch_release(theirs), SL_OK);
    }
    assert_same_batches(now.writer.stream, now.reader.stream, 3 * SLOTS);
    end_pair(&now);
}

static void what_a_system_call_writes_is_dropped_too(void** state) {
    (void)state;
    pair now;
    begin_pair(&now);
    int zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    assert_true(zeros >= 0);
    for (unsigned i = 0; i < 2 * SLOTS; i++) {
        sl_batch* batch = next_in_any_epoch(now.writer.stream);
        bytes image = tensor_bytes(batch, "image");
        assert_int_equal(sl_batch_allow_writes(batch), SL_OK);
        assert_int_equal(read(zeros, image.at, image.count), image.count);
        for (uint64_t b = 0; b < image.count; b++)
            assert_int_equal(image.at[b], 0);
        assert_int_equal(sl_batch_release(batch), SL_OK);
        assert_int_equal(sl_batch_release(next_in_any_epoch(now.reader.stream)), SL_OK);
    }
    close(zeros);
    assert_same_batches(now.writer.stream, now.reader.stream, 3 * SLOTS);
    end_pair(&now);
}

static void* scribble_and_release(void* batch) {
    scribble(batch);
    return sl_batch_release(batch) == SL_OK ? NULL : batch;
}

static void* read_and_release(void* batch) {
    (void)e2e_sum(batch, "image");
    return sl_batch_release(batch) == SL_OK ? NULL : batch;
}

static void written_and_unwritten_leases_end_on_several_threads_at_once(void** state) {
    (void)state;
    pair now;
    begin_pair(&now);
    for (unsigned round = 0; round < 3 * SLOTS; round++) {
        pthread_t threads[SLOTS];
        for (unsigned i = 0; i < SLOTS; i++) {
            sl_batch* ours = next_in_any_epoch(now.writer.stream);
            sl_batch* theirs = next_in_any_epoch(now.reader.stream);
            assert_same(ours, theirs);
            assert_int_equal(sl_batch_release(theirs), SL_OK);
            void* (*work)(void*) = (round + i) % 3 == 0 ? read_and_release : scribble_and_release;
            assert_int_equal(pthread_create(&threads[i], NULL, work, ours), 0);
        }
        for (unsigned i = 0; i < SLOTS; i++) {
            void* failed = NULL;
            assert_int_equal(pthread_join(threads[i], &failed), 0);
            assert_null(failed);
        }
    }
    end_pair(&now);
}

static void a_written_batch_may_outlive_its_stream_and_client(void** state) {
    (void)state;
    e2e now;
    e2e_begin(&now, BATCH, EPOCHS, SLOTS);
    sl_batch* first = next_in_any_epoch(now.stream);
    sl_batch* second = next_in_any_epoch(now.stream);
    scribble(first);
    e2e_end(&now);
    uint64_t sum = e2e_sum(first, "image");
    scribble(second);
    assert_int_equal(sl_batch_release(second), SL_OK);
    assert_true(e2e_sum(first, "image") == sum);
    assert_int_equal(sl_batch_release(first), SL_OK);
}

/* Writes into every slot and gives all back while the process may open no further descriptor, so that
 * /proc/.../pagemap cannot be read. */
static void scribble_without_descriptors(sl_stream* stream) {
    sl_batch* held[SLOTS];
    for (unsigned i = 0; i < SLOTS; i++) {
        held[i] = next_in_any_epoch(stream);
        scribble(held[i]);
    }
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit none = {0, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int refused = open("/proc/self/pagemap", O_RDONLY);
    sl_status status = SL_OK;
    for (unsigned i = 0; i < SLOTS; i++)
        if (status == SL_OK) status = sl_batch_release(held[i]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(refused, -1);
    assert_int_equal(status, SL_OK);
}

static void where_pages_cannot_be_told_apart_all_of_them_are_dropped(void** state) {
    (void)state;
    pair now;
    begin_pair(&now);
    for (unsigned round = 0; round < 3; round++) {
        scribble_without_descriptors(now.writer.stream);
        for (unsigned i = 0; i < SLOTS; i++)
            assert_int_equal(sl_batch_release(next_in_any_epoch(now.reader.stream)), SL_OK);
    }
    assert_same_batches(now.writer.stream, now.reader.stream, 3 * SLOTS);
    end_pair(&now);
}

static void writing_needs_no_descriptors(void** state) {
    (void)state;
    e2e now;
    e2e_begin(&now, BATCH, EPOCHS, SLOTS);
    unsigned before = e2e_open_descriptors();
    for (unsigned i = 0; i < 3 * SLOTS; i++) {
        sl_batch* batch = next_in_any_epoch(now.stream);
        scribble(batch);
        assert_int_equal(e2e_open_descriptors(), before);
        assert_int_equal(sl_batch_release(batch), SL_OK);
        assert_int_equal(e2e_open_descriptors(), before);
    }
    e2e_end(&now);
}

static void pages_that_the_process_has_locked_are_dropped_too(void** state) {
    (void)state;
    pair now;
    begin_pair(&now);
    for (unsigned i = 0; i < SLOTS; i++) {
        sl_batch* batch = next_in_any_epoch(now.writer.stream);
        bytes image = tensor_bytes(batch, "image");
        if (i == 0 && mlock(image.at, image.count) != 0) {
            assert_int_equal(sl_batch_release(batch), SL_OK);
            end_pair(&now);
            skip(); /* RLIMIT_MEMLOCK */
        }
        scribble(batch);
        assert_int_equal(sl_batch_release(batch), SL_OK);
        assert_int_equal(sl_batch_release(next_in_any_epoch(now.reader.stream)), SL_OK);
    }
    assert_same_batches(now.writer.stream, now.reader.stream, 3 * SLOTS);
    end_pair(&now);
}

static void a_ring_of_64_slots_may_be_written_all_over(void** state) {
    (void)state;
    enum { MANY = 64 };
    e2e now;
    e2e_begin(&now, 1, 5, MANY);
    sl_batch* held[MANY];
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < MANY; i++) {
            held[i] = next_in_any_epoch(now.stream);
            assert_int_equal(sl_batch_allow_writes(held[i]), SL_OK);
            bytes image = tensor_bytes(held[i], "image");
            memset(image.at, (int)(i + round), image.count);
        }
        for (unsigned i = 0; i < MANY; i++) {
            bytes image = tensor_bytes(held[i], "image");
            for (uint64_t b = 0; b < image.count; b++)
                assert_int_equal(image.at[b], i + round);
            assert_int_equal(sl_batch_release(held[i]), SL_OK);
        }
    }
    e2e_end(&now);
}

const struct CMUnitTest e2e_writes_drop_tests[] = {
    cmocka_unit_test(a_few_bytes_here_and_there_are_dropped_like_a_whole_batch),
    cmocka_unit_test(what_a_system_call_writes_is_dropped_too),
    cmocka_unit_test(written_and_unwritten_leases_end_on_several_threads_at_once),
    cmocka_unit_test(a_written_batch_may_outlive_its_stream_and_client),
    cmocka_unit_test(where_pages_cannot_be_told_apart_all_of_them_are_dropped),
    cmocka_unit_test(writing_needs_no_descriptors),
    cmocka_unit_test(pages_that_the_process_has_locked_are_dropped_too),
    cmocka_unit_test(a_ring_of_64_slots_may_be_written_all_over),
};
const size_t e2e_writes_drop_count = sizeof e2e_writes_drop_tests / sizeof e2e_writes_drop_tests[0];
