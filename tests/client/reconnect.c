/* See reconnect.h. */
#include "reconnect.h"

#include <string.h>
#include <time.h>

int64_t restart_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void make(segment* made, uint64_t batch) {
    segment_make(made);
    sl_shm_batch_header* header = segment_header(made);
    header->batches_per_epoch = BATCHES;
    header->epochs = EPOCHS;
    header->first_batch = batch;
    segment_seal(made);
}

void restart_begin(restart* now, int64_t reconnect_ms) {
    memset(now, 0, sizeof *now);
    make(&now->memory, 0);
    peer_start(&now->one, &now->memory);
    sl_connect_options options = {.struct_size = sizeof options,
                                  .socket = now->one.path,
                                  .timeout_ms = 5000,
                                  .reconnect_ms = reconnect_ms};
    assert_int_equal(sl_connect(&options, &now->client), SL_OK);
    assert_int_equal(sl_open(now->client, "{}", 2, NULL, &now->stream), SL_OK);
}

void restart_end(restart* now) {
    assert_int_equal(sl_close(now->stream), SL_OK);
    assert_int_equal(sl_disconnect(now->client), SL_OK);
    if (now->one.memory != NULL) peer_stop(&now->one);
    segment_free(&now->memory);
    if (now->next.memory != NULL) segment_free(&now->next);
}

void restart_publish(segment* memory, uint64_t batch, uint32_t slot) {
    segment_publish(memory, &(sl_shm_descriptor){.kind = SL_DESCRIPTOR_BATCH,
                                                 .slot = slot,
                                                 .generation = (uint32_t)batch + 1,
                                                 .count = 1,
                                                 .batch = batch});
}

void restart_take(restart* now, segment* memory, uint64_t batch) {
    sl_batch* taken = NULL;
    restart_publish(memory, batch, 0);
    assert_int_equal(sl_next(now->stream, 5000, &taken), SL_OK);
    sl_batch_info info = {.struct_size = sizeof info};
    assert_int_equal(sl_batch_get_info(taken, &info), SL_OK);
    assert_int_equal(info.batch, batch);
    assert_int_equal(sl_batch_release(taken), SL_OK);
}

void restart_kill(restart* now) {
    peer_hang_up(&now->one);
    peer_stop(&now->one);
    now->one.memory = NULL;
}

void restart_prepare(restart* now, uint64_t batch) {
    make(&now->next, batch);
    restart_publish(&now->next, batch, 0);
}

void restart_follow(restart* now, uint64_t batch) {
    restart_prepare(now, batch);
    peer_start(&now->one, &now->next);
}

sl_status restart_next(sl_stream* stream, int64_t timeout_ms, sl_batch** batch) {
    int64_t deadline = restart_now_ms() + 10000;
    sl_status status = SL_TIMEOUT;
    while (status == SL_TIMEOUT && restart_now_ms() < deadline)
        status = sl_next(stream, timeout_ms, batch);
    return status;
}

void restart_says(const char* part) {
    sl_error error = {.struct_size = sizeof error};
    sl_last_error(&error);
    if (strstr(error.message, part) == NULL) fail_msg("\"%s\" does not say \"%s\"", error.message, part);
}
