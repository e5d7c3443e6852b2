/* Writing to leased batches: who may, and who sees it. */
#include "e2e_writes.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void what_is_written_is_seen_while_the_batch_is_held_and_never_after(void** state) {
    (void)state;
    pair now;
    begin_pair(&now);
    for (unsigned i = 0; i < 2 * SLOTS; i++) {
        sl_batch* ours = next_in_any_epoch(now.writer.stream);
        sl_batch* theirs = next_in_any_epoch(now.reader.stream);
        assert_same(ours, theirs); /* what was written into this slot before is gone */
        scribble(ours);
        bytes mine = tensor_bytes(ours, "image");
        bytes original = tensor_bytes(theirs, "image");
        for (uint64_t b = 0; b < mine.count; b++)
            assert_int_equal(mine.at[b], (uint8_t)~original.at[b]);
        assert_int_equal(sl_batch_release(ours), SL_OK);
        assert_int_equal(sl_batch_release(theirs), SL_OK);
    }
    assert_same_batches(now.writer.stream, now.reader.stream, 3 * SLOTS);
    end_pair(&now);
}

static void a_batch_that_is_held_beside_a_written_one_keeps_its_bytes(void** state) {
    (void)state;
    e2e now;
    e2e_begin(&now, BATCH, EPOCHS, SLOTS);
    sl_batch* held = next_in_any_epoch(now.stream);
    uint64_t sum = e2e_sum(held, "image");
    for (unsigned i = 0; i < 3 * SLOTS; i++) {
        sl_batch* written = next_in_any_epoch(now.stream);
        scribble(written);
        assert_true(e2e_sum(held, "image") == sum);
        assert_int_equal(sl_batch_release(written), SL_OK);
    }
    assert_true(e2e_sum(held, "image") == sum);
    assert_int_equal(sl_batch_release(held), SL_OK);
    e2e_end(&now);
}

/* Forks a child that looks at its own map of the same memory once the parent has written: 0 if all is as it
 * was. */
static pid_t fork_witness(bytes image, int go) {
    static uint8_t before[BATCH * 3 * 32 * 48];
    assert_int_equal(image.count, sizeof before);
    memcpy(before, image.at, image.count);
    pid_t child = fork();
    if (child != 0) return child;
    char word;
    if (read(go, &word, 1) != 1) _exit(2);
    _exit(memcmp(before, image.at, image.count) == 0 ? 0 : 1);
}

static void another_process_with_the_same_memory_sees_nothing_of_it(void** state) {
    (void)state;
    e2e now;
    e2e_begin(&now, BATCH, EPOCHS, SLOTS);
    sl_batch* batch = next_in_any_epoch(now.stream);
    int go[2];
    assert_int_equal(pipe(go), 0);
    pid_t child = fork_witness(tensor_bytes(batch, "image"), go[0]);
    scribble(batch);
    assert_int_equal(write(go[1], "", 1), 1);
    int ended = -1;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
    close(go[0]);
    close(go[1]);
    assert_int_equal(sl_batch_release(batch), SL_OK);
    e2e_end(&now);
}

static void a_childs_writes_are_its_own_and_the_parent_still_drops_its(void** state) {
    (void)state;
    pair now;
    begin_pair(&now);
    sl_batch* ours = next_in_any_epoch(now.writer.stream);
    sl_batch* theirs = next_in_any_epoch(now.reader.stream);
    assert_int_equal(sl_batch_allow_writes(ours), SL_OK);
    bytes image = tensor_bytes(ours, "image");
    memset(image.at, 7, image.count / 2);
    pid_t child = fork();
    if (child == 0) {
        memset(image.at, 9, image.count);
        _exit(sl_batch_allow_writes(ours) == SL_E_FORKED && sl_batch_release(ours) == SL_E_FORKED ? 0 : 1);
    }
    int ended = -1;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
    bytes original = tensor_bytes(theirs, "image");
    for (uint64_t b = 0; b < image.count; b++)
        assert_int_equal(image.at[b], b < image.count / 2 ? 7 : original.at[b]);
    assert_int_equal(sl_batch_release(ours), SL_OK);
    assert_int_equal(sl_batch_release(theirs), SL_OK);
    assert_same_batches(now.writer.stream, now.reader.stream, 3 * SLOTS);
    end_pair(&now);
}

/* How a child that writes one byte of the batch ends. */
static int write_in_a_child(const sl_batch* batch) {
    bytes image = tensor_bytes(batch, "image");
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* not a sanitizer's report */
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        image.at[0] ^= 1;
        _exit(0);
    }
    int ended = -1;
    assert_int_equal(waitpid(child, &ended, 0), child);
    return ended;
}

static void a_write_that_was_not_allowed_is_a_fault(void** state) {
    (void)state;
    e2e now;
    e2e_begin(&now, BATCH, EPOCHS, SLOTS);
    sl_batch* batch = next_in_any_epoch(now.stream);
    sl_batch* other = next_in_any_epoch(now.stream);
    scribble(other);
    int ended = write_in_a_child(batch);
    assert_true(WIFSIGNALED(ended));
    assert_int_equal(WTERMSIG(ended), SIGSEGV);
    assert_int_equal(sl_batch_allow_writes(batch), SL_OK);
    assert_int_equal(write_in_a_child(batch), 0);
    assert_int_equal(sl_batch_release(batch), SL_OK);
    assert_int_equal(sl_batch_release(other), SL_OK);
    e2e_end(&now);
}

static void leave_is_given_to_leases_only_and_as_often_as_one_likes(void** state) {
    (void)state;
    e2e now;
    e2e_begin(&now, BATCH, EPOCHS, SLOTS);
    assert_int_equal(sl_batch_allow_writes(NULL), SL_E_INVALID_ARGUMENT);
    sl_batch* batch = next_in_any_epoch(now.stream);
    scribble(batch);
    uint64_t sum = e2e_sum(batch, "image");
    assert_int_equal(sl_batch_allow_writes(batch), SL_OK);
    assert_true(e2e_sum(batch, "image") == sum);
    assert_int_equal(sl_batch_release(batch), SL_OK);
    assert_int_equal(sl_batch_allow_writes(batch), SL_E_INVALID_ARGUMENT);
    e2e_end(&now);
}

static void a_process_that_may_have_no_more_memory_is_told_so(void** state) {
    (void)state;
    e2e now;
    e2e_begin(&now, BATCH, EPOCHS, SLOTS);
    sl_batch* batch = next_in_any_epoch(now.stream);
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_DATA, &before), 0);
    struct rlimit little = {4096, before.rlim_max};
    uint64_t sum = e2e_sum(batch, "image");
    assert_int_equal(setrlimit(RLIMIT_DATA, &little), 0);
    sl_status refused = sl_batch_allow_writes(batch);
    assert_int_equal(setrlimit(RLIMIT_DATA, &before), 0);
    assert_int_equal(refused, SL_E_NO_MEMORY);
    e2e_assert_says("writable");
    assert_true(e2e_sum(batch, "image") == sum);
    scribble(batch); /* and later there is some */
    assert_int_equal(sl_batch_release(batch), SL_OK);
    e2e_end(&now);
}

const struct CMUnitTest e2e_writes_tests[] = {
    cmocka_unit_test(what_is_written_is_seen_while_the_batch_is_held_and_never_after),
    cmocka_unit_test(a_batch_that_is_held_beside_a_written_one_keeps_its_bytes),
    cmocka_unit_test(another_process_with_the_same_memory_sees_nothing_of_it),
    cmocka_unit_test(a_childs_writes_are_its_own_and_the_parent_still_drops_its),
    cmocka_unit_test(a_write_that_was_not_allowed_is_a_fault),
    cmocka_unit_test(leave_is_given_to_leases_only_and_as_often_as_one_likes),
    cmocka_unit_test(a_process_that_may_have_no_more_memory_is_told_so),
};
const size_t e2e_writes_count = sizeof e2e_writes_tests / sizeof e2e_writes_tests[0];
