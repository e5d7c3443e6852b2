/* Saved positions with the real daemon: what they count, that they open where they say, and what they refuse.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e.h"

/* Ten batches of four an epoch. */
enum { BATCH = 4, BATCHES = 10, EPOCHS = 2 };

typedef struct position {
    char text[SL_STATE_MAX];
} position;

static position saved(const sl_stream* stream) {
    position now;
    memset(&now, 'x', sizeof now);
    assert_int_equal(sl_stream_state(stream, now.text, sizeof now.text), SL_OK);
    return now;
}

static sl_status open_at(sl_client* client, const char* state, sl_level level, sl_stream** stream) {
    const char* spec = e2e_spec(BATCH, EPOCHS);
    sl_open_options options = {.struct_size = sizeof options, .level = level, .state = state};
    return sl_open(client, spec, strlen(spec), &options, stream);
}

static void assert_ends_with(const char* text, const char* end) {
    size_t length = strlen(text);
    assert_true(length > strlen(end));
    assert_string_equal(text + length - strlen(end), end);
}

static void take(sl_stream* stream, unsigned batches) {
    for (unsigned i = 0; i < batches; i++)
        assert_int_equal(sl_batch_release(e2e_next(stream)), SL_OK);
}

static void a_state_counts_taken_batches_and_not_those_in_the_ring(void** state) {
    (void)state;
    e2e now;
    e2e_begin(&now, BATCH, EPOCHS, 8);
    sl_stats stats = {.struct_size = sizeof stats};
    sl_batch* held = e2e_next(now.stream);
    do
        assert_int_equal(sl_stream_stats(now.stream, &stats), SL_OK);
    while (stats.ready < 5); /* the ring fills by itself */
    position one = saved(now.stream);
    assert_memory_equal(one.text, "{\"speedyloader_state\":1,\"dataset\":\"", 35);
    assert_ends_with(one.text,
                     "\"samples\":40,\"seed\":3,\"shuffle\":true,\"order\":1,\"global_batch\":4,"
                     "\"last\":\"keep\",\"epoch\":0,\"batch\":1}");
    assert_int_equal(sl_batch_release(held), SL_OK);
    assert_string_equal(saved(now.stream).text, one.text);
    take(now.stream, BATCHES - 1);
    position border = saved(now.stream); /* the end of the epoch has not been taken */
    assert_ends_with(border.text, "\"epoch\":1,\"batch\":0}");
    sl_batch* none = NULL;
    assert_int_equal(sl_next(now.stream, E2E_WAIT_MS, &none), SL_END_OF_EPOCH);
    assert_string_equal(saved(now.stream).text, border.text);
    e2e_end(&now);
}

static void a_stream_opened_at_a_state_goes_on_from_there(void** state) {
    (void)state;
    e2e now;
    e2e_begin(&now, BATCH, EPOCHS, 0);
    take(now.stream, 7);
    position seven = saved(now.stream);
    sl_batch* eighth = e2e_next(now.stream);
    sl_stream* resumed = NULL;
    assert_int_equal(open_at(now.client, seven.text, SL_LEVEL_BATCH, &resumed), SL_OK);
    assert_string_equal(saved(resumed).text, seven.text);
    sl_stream_info info = {.struct_size = sizeof info};
    assert_int_equal(sl_stream_get_info(resumed, &info), SL_OK);
    assert_true(info.first_epoch == 0 && info.first_batch == 7 && info.batches_per_epoch == BATCHES);
    sl_batch* same = e2e_next(resumed);
    sl_batch_info where = {.struct_size = sizeof where};
    assert_int_equal(sl_batch_get_info(same, &where), SL_OK);
    assert_true(where.epoch == 0 && where.batch == 7 && where.step == 7);
    assert_true(e2e_sum(same, "image") == e2e_sum(eighth, "image"));
    assert_true(e2e_sum(same, "sample_id") == e2e_sum(eighth, "sample_id"));
    assert_string_equal(saved(resumed).text, saved(now.stream).text);
    assert_int_equal(sl_batch_release(same), SL_OK);
    assert_int_equal(sl_batch_release(eighth), SL_OK);
    assert_int_equal(sl_close(resumed), SL_OK);
    e2e_end(&now);
}

static void the_state_after_the_last_batch_opens_at_the_end(void** state) {
    (void)state;
    e2e now;
    e2e_begin(&now, BATCH, EPOCHS, 0);
    take(now.stream, BATCHES);
    sl_batch* none = NULL;
    assert_int_equal(sl_next(now.stream, E2E_WAIT_MS, &none), SL_END_OF_EPOCH);
    take(now.stream, BATCHES);
    position end = saved(now.stream);
    assert_ends_with(end.text, "\"epoch\":2,\"batch\":0}");
    sl_stream* resumed = NULL;
    assert_int_equal(open_at(now.client, end.text, SL_LEVEL_BATCH, &resumed), SL_OK);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(sl_next(resumed, E2E_WAIT_MS, &none), SL_END);
    assert_string_equal(saved(resumed).text, end.text);
    assert_int_equal(sl_close(resumed), SL_OK);
    e2e_end(&now);
}

static void an_empty_state_and_options_without_one_begin_at_the_start(void** state) {
    (void)state;
    sl_client* client = e2e_connect();
    const char* spec = e2e_spec(BATCH, EPOCHS);
    /* A program built before there were states: its struct ends here, and what follows is not looked at. */
    sl_open_options old = {.struct_size = offsetof(sl_open_options, state), .state = (const char*)1};
    sl_stream* stream = NULL;
    assert_int_equal(sl_open(client, spec, strlen(spec), &old, &stream), SL_OK);
    assert_ends_with(saved(stream).text, "\"epoch\":0,\"batch\":0}");
    sl_stream_info shorter = {.struct_size = offsetof(sl_stream_info, first_batch), .first_batch = 99};
    assert_int_equal(sl_stream_get_info(stream, &shorter), SL_OK);
    assert_int_equal(shorter.first_batch, 99);
    assert_int_equal(sl_close(stream), SL_OK);
    assert_int_equal(open_at(client, "", SL_LEVEL_BATCH, &stream), SL_OK);
    assert_ends_with(saved(stream).text, "\"epoch\":0,\"batch\":0}");
    assert_int_equal(sl_close(stream), SL_OK);
    assert_int_equal(sl_disconnect(client), SL_OK);
}

static void a_buffer_that_is_too_small_is_told_the_size_and_left_alone(void** state) {
    (void)state;
    e2e now;
    e2e_begin(&now, BATCH, EPOCHS, 0);
    position whole = saved(now.stream);
    size_t needed = strlen(whole.text) + 1;
    position part = {.text = "before"};
    for (size_t bytes = 0; bytes < needed; bytes += needed - 1) {
        assert_int_equal(sl_stream_state(now.stream, part.text, bytes), SL_E_INVALID_ARGUMENT);
        e2e_assert_says("SL_STATE_MAX (320) is enough");
        assert_string_equal(part.text, "before");
    }
    assert_int_equal(sl_stream_state(now.stream, NULL, 320), SL_E_INVALID_ARGUMENT);
    assert_int_equal(sl_stream_state(now.stream, part.text, needed), SL_OK);
    assert_string_equal(part.text, whole.text);
    e2e_end(&now);
}

static void a_state_is_not_told_to_a_forked_child(void** state) {
    (void)state;
    e2e now;
    e2e_begin(&now, BATCH, EPOCHS, 0);
    pid_t child = fork();
    if (child == 0) {
        position text;
        _exit(sl_stream_state(now.stream, text.text, sizeof text.text) == SL_E_FORKED ? 0 : 1);
    }
    int ended = 0;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
    e2e_end(&now);
}

static void a_state_is_known_after_the_daemon_has_gone(void** state) {
    (void)state;
    e2e now;
    e2e_begin_with(&now, SL_NO_RECONNECT, BATCH, EPOCHS, 2);
    take(now.stream, 3);
    sl_batch* held[2] = {e2e_next(now.stream), e2e_next(now.stream)};
    assert_true(e2e_daemon_processes(SIGKILL) > 0);
    sl_batch* none = NULL;
    assert_int_equal(sl_next(now.stream, E2E_WAIT_MS, &none), SL_E_DISCONNECTED);
    position five = saved(now.stream);
    assert_ends_with(five.text, "\"epoch\":0,\"batch\":5}");
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(sl_batch_release(held[i]), SL_OK);
    e2e_end(&now);
    sl_client* client = e2e_connect(); /* another daemon */
    sl_stream* resumed = NULL;
    assert_int_equal(open_at(client, five.text, SL_LEVEL_BATCH, &resumed), SL_OK);
    assert_string_equal(saved(resumed).text, five.text);
    take(resumed, BATCHES - 5);
    assert_int_equal(sl_next(resumed, E2E_WAIT_MS, &none), SL_END_OF_EPOCH);
    assert_int_equal(sl_close(resumed), SL_OK);
    assert_int_equal(sl_disconnect(client), SL_OK);
}

static void a_sample_stream_has_a_state_between_epochs_only(void** state) {
    (void)state;
    sl_client* client = e2e_connect();
    sl_stream* stream = NULL;
    assert_int_equal(open_at(client, NULL, SL_LEVEL_SAMPLE, &stream), SL_OK);
    sl_batch* sample = NULL;
    position text;
    for (unsigned i = 0; i < E2E_PHOTOS; i++) {
        assert_int_equal(sl_next_sample(stream, E2E_WAIT_MS, &sample, NULL), SL_OK);
        assert_int_equal(sl_batch_release(sample), SL_OK);
        if (i + 1 == E2E_PHOTOS) continue;
        assert_int_equal(sl_stream_state(stream, text.text, sizeof text.text), SL_E_UNSUPPORTED);
        e2e_assert_says("only between epochs");
    }
    text = saved(stream);
    assert_ends_with(text.text, "\"global_batch\":1,\"last\":\"keep\",\"epoch\":1,\"batch\":0}");
    assert_int_equal(sl_close(stream), SL_OK);
    assert_int_equal(open_at(client, text.text, SL_LEVEL_SAMPLE, &stream), SL_OK);
    for (unsigned i = 0; i < E2E_PHOTOS; i++) {
        assert_int_equal(sl_next_sample(stream, E2E_WAIT_MS, &sample, NULL), SL_OK);
        assert_int_equal(sl_batch_release(sample), SL_OK);
    }
    assert_int_equal(sl_next_sample(stream, E2E_WAIT_MS, &sample, NULL), SL_END_OF_EPOCH);
    assert_int_equal(sl_next_sample(stream, E2E_WAIT_MS, &sample, NULL), SL_END);
    assert_int_equal(sl_close(stream), SL_OK);
    assert_int_equal(sl_disconnect(client), SL_OK);
}

static void text_that_is_no_state_is_refused_and_opens_nothing(void** state) {
    (void)state;
    sl_client* client = e2e_connect();
    sl_stream* stream = NULL;
    assert_int_equal(open_at(client, "{", SL_LEVEL_BATCH, &stream), SL_E_SPEC);
    e2e_assert_says("the state is not JSON");
    assert_int_equal(open_at(client, "{\"epoch\": 1}", SL_LEVEL_BATCH, &stream), SL_E_SPEC);
    e2e_assert_says("state.speedyloader_state is missing");
    char endless[4096];
    memset(endless, ' ', sizeof endless);
    endless[sizeof endless - 1] = '\0';
    assert_int_equal(open_at(client, endless, SL_LEVEL_BATCH, &stream), SL_E_SPEC);
    e2e_assert_says("sl_open_options.state has more than 512 bytes");
    assert_null(stream);
    assert_int_equal(sl_disconnect(client), SL_OK);
}

const struct CMUnitTest e2e_position_tests[] = {
    cmocka_unit_test(a_state_counts_taken_batches_and_not_those_in_the_ring),
    cmocka_unit_test(a_stream_opened_at_a_state_goes_on_from_there),
    cmocka_unit_test(the_state_after_the_last_batch_opens_at_the_end),
    cmocka_unit_test(an_empty_state_and_options_without_one_begin_at_the_start),
    cmocka_unit_test(a_buffer_that_is_too_small_is_told_the_size_and_left_alone),
    cmocka_unit_test(a_state_is_not_told_to_a_forked_child),
    cmocka_unit_test(a_state_is_known_after_the_daemon_has_gone),
    cmocka_unit_test(a_sample_stream_has_a_state_between_epochs_only),
    cmocka_unit_test(text_that_is_no_state_is_refused_and_opens_nothing),
};
const size_t e2e_position_count = sizeof e2e_position_tests / sizeof e2e_position_tests[0];
