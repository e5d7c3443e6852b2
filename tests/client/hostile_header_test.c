/* A daemon whose memory is wrong, that is too new or says nothing: sl_connect and sl_open refuse it with a
 * status and close the stream in the daemon; none of it is a crash. */
#include <errno.h>
#include <speedyloader/speedyloader.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "cmocka_c.h"
#include "peer.h"

static sl_status connect_to(const peer* one, int64_t timeout_ms, sl_client** client) {
    sl_connect_options options = {
        .struct_size = sizeof options, .socket = one->path, .timeout_ms = timeout_ms};
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

static void wrong_magic(sl_shm_batch_header* header) {
    header->magic++;
}
static void not_ready(sl_shm_batch_header* header) {
    header->ready = 0;
}
static void too_new(sl_shm_batch_header* header) {
    header->major++;
}
static void too_old(sl_shm_batch_header* header) {
    header->minor--;
}
static void other_length(sl_shm_batch_header* header) {
    header->segment_bytes++;
}
static void short_header(sl_shm_batch_header* header) {
    header->header_bytes = 64;
}
static void no_slots(sl_shm_batch_header* header) {
    header->slot_count = 0;
}
static void many_slots(sl_shm_batch_header* header) {
    header->slot_count = SL_SHM_MAX_SLOTS + 1;
}
static void odd_ring(sl_shm_batch_header* header) {
    header->ring_capacity = 7;
}
static void ring_outside(sl_shm_batch_header* header) {
    header->ring_offset = header->segment_bytes;
}
static void ring_in_header(sl_shm_batch_header* header) {
    header->ring_offset = 0;
}
static void ring_overflows(sl_shm_batch_header* header) {
    header->ring_offset = UINT64_MAX - 63;
}
static void info_outside(sl_shm_batch_header* header) {
    header->info_offset = header->segment_bytes - 8;
}
static void slots_outside(sl_shm_batch_header* header) {
    header->slots_offset += SL_SHM_PAGE;
}
static void slots_overflow(sl_shm_batch_header* header) {
    header->slot_bytes = UINT64_MAX - 4095;
}
static void huge_batch(sl_shm_batch_header* header) {
    header->batch_size = UINT32_MAX;
}
static void no_batch(sl_shm_batch_header* header) {
    header->batch_size = 0;
}
static void many_tensors(sl_shm_batch_header* header) {
    header->tensor_count = SL_SHM_ALL_TENSORS + 1;
}
static void endless_name(sl_shm_batch_header* header) {
    memset(header->tensors[0].name, 'x', 32);
}
static void unknown_type(sl_shm_batch_header* header) {
    header->tensors[0].dtype = 99;
}
static void many_dims(sl_shm_batch_header* header) {
    header->tensors[0].ndim = 5;
}
static void negative_dim(sl_shm_batch_header* header) {
    header->tensors[0].shape[1] = -3;
}
static void huge_dim(sl_shm_batch_header* header) {
    header->tensors[0].shape[1] = INT64_MAX;
}
static void wrong_bytes(sl_shm_batch_header* header) {
    header->tensors[1].bytes = 4096;
}
static void tensor_outside(sl_shm_batch_header* header) {
    header->tensors[1].offset = header->slot_bytes;
}
static void tensor_unaligned(sl_shm_batch_header* header) {
    header->tensors[1].offset = 520;
}

static void no_batches(sl_shm_batch_header* header) {
    header->batches_per_epoch = 0;
}
static void begins_after_the_end(sl_shm_batch_header* header) {
    header->first_epoch = header->epochs + 1;
}
static void begins_beyond_the_epoch(sl_shm_batch_header* header) {
    header->first_batch = header->batches_per_epoch;
}
static void begins_within_no_epoch(sl_shm_batch_header* header) {
    header->batches_per_epoch = 2;
    header->first_epoch = header->epochs;
    header->first_batch = 1;
}
static void small_global_batch(sl_shm_batch_header* header) {
    header->global_batch = SEGMENT_ROWS - 1;
}
static void unknown_rule(sl_shm_batch_header* header) {
    header->last = SL_SHM_LAST_PAD + 1;
}

static const struct lie {
    void (*tell)(sl_shm_batch_header*);
    sl_status status;
    const char* says;
} lies[] = {
    {wrong_magic, SL_E_PROTOCOL, "not one of SpeedyLoader's"},
    {not_ready, SL_E_PROTOCOL, "not one of SpeedyLoader's"},
    {too_new, SL_E_VERSION, "layout 2.3"},
    {too_old, SL_E_VERSION, "layout 1.2"},
    {other_length, SL_E_PROTOCOL, "segment length"},
    {short_header, SL_E_PROTOCOL, "header length"},
    {no_slots, SL_E_PROTOCOL, "slot count"},
    {many_slots, SL_E_PROTOCOL, "slot count"},
    {odd_ring, SL_E_PROTOCOL, "ring capacity"},
    {ring_outside, SL_E_PROTOCOL, "ring offset"},
    {ring_in_header, SL_E_PROTOCOL, "ring offset"},
    {ring_overflows, SL_E_PROTOCOL, "ring offset"},
    {info_outside, SL_E_PROTOCOL, "info offset"},
    {slots_outside, SL_E_PROTOCOL, "slots offset"},
    {slots_overflow, SL_E_PROTOCOL, "slots offset"},
    {huge_batch, SL_E_PROTOCOL, "info offset"},
    {no_batch, SL_E_PROTOCOL, "batch size"},
    {many_tensors, SL_E_PROTOCOL, "tensor count"},
    {endless_name, SL_E_PROTOCOL, "tensor name"},
    {unknown_type, SL_E_PROTOCOL, "tensor type"},
    {many_dims, SL_E_PROTOCOL, "tensor shape"},
    {negative_dim, SL_E_PROTOCOL, "tensor shape"},
    {huge_dim, SL_E_PROTOCOL, "tensor shape"},
    {wrong_bytes, SL_E_PROTOCOL, "tensor length"},
    {tensor_outside, SL_E_PROTOCOL, "tensor offset"},
    {tensor_unaligned, SL_E_PROTOCOL, "tensor offset"},
    {no_batches, SL_E_PROTOCOL, "number of batches"},
    {begins_after_the_end, SL_E_PROTOCOL, "first epoch"},
    {begins_beyond_the_epoch, SL_E_PROTOCOL, "first batch"},
    {begins_within_no_epoch, SL_E_PROTOCOL, "first batch"},
    {small_global_batch, SL_E_PROTOCOL, "global batch"},
    {unknown_rule, SL_E_PROTOCOL, "rule for the last batch"},
};

/* Opens over the memory as it is; a refusal must have closed the stream in the daemon. */
static void assert_refused(segment* memory, int leave_out, sl_status status, const char* says) {
    peer one = {.leave_out = leave_out};
    sl_client* client = NULL;
    sl_stream* stream = NULL;
    peer_start(&one, memory);
    assert_int_equal(connect_to(&one, 0, &client), SL_OK);
    assert_int_equal(open_stream(client, &stream), status);
    assert_says(says);
    assert_null(stream);
    sl_disconnect(client);
    peer_stop(&one);
    assert_int_equal(one.closes, 1);
}

static void every_lie_in_the_header_is_refused(void** state) {
    (void)state;
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        segment memory;
        segment_make(&memory);
        lies[i].tell(segment_header(&memory));
        segment_seal(&memory);
        assert_refused(&memory, 0, lies[i].status, lies[i].says);
        segment_free(&memory);
    }
}

static void memory_that_could_be_cut_short_is_refused(void** state) {
    (void)state;
    segment memory;
    segment_make(&memory);
    assert_refused(&memory, 0, SL_E_PROTOCOL, "not sealed against shrinking");
    segment_free(&memory);
}

static void a_file_shorter_than_its_header_is_refused(void** state) {
    (void)state;
    segment memory;
    segment_make(&memory);
    assert_int_equal(ftruncate(memory.batches_fd, 100), 0);
    segment_seal(&memory);
    assert_refused(&memory, 0, SL_E_PROTOCOL, "only 100 bytes");
    segment_free(&memory);
}

static void a_missing_segment_is_named(void** state) {
    (void)state;
    segment memory;
    segment_make(&memory);
    segment_seal(&memory);
    assert_refused(&memory, 3, SL_E_PROTOCOL, "left out a segment");
    segment_free(&memory);
}

/* The next free number of a descriptor. */
static rlim_t next_descriptor(void) {
    int fd = dup(0);
    assert_true(fd >= 0);
    close(fd);
    return (rlim_t)fd;
}

static void LDR_11_a_descriptor_that_is_cut_off_is_told_as_such_and_there_is_a_next_time(void** state) {
    (void)state;
    segment memory;
    segment_make(&memory);
    segment_seal(&memory);
    peer one = {0};
    sl_client* client = NULL;
    sl_stream* stream = NULL;
    peer_start(&one, &memory);
    assert_int_equal(connect_to(&one, 0, &client), SL_OK);
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit full = {.rlim_cur = next_descriptor() + 1, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &full), 0); /* room for one of the four */
    sl_status status = open_stream(client, &stream);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, SL_E_IO);
    assert_says("MSG_CTRUNC");
    sl_error error = {.struct_size = sizeof error};
    sl_last_error(&error);
    assert_int_equal(error.os_errno, EMFILE);
    assert_int_equal(open_stream(client, &stream), SL_OK);
    assert_int_equal(sl_close(stream), SL_OK);
    sl_disconnect(client);
    peer_stop(&one);
    assert_int_equal(one.closes, 2); /* the first one holds no memory in the daemon either */
    segment_free(&memory);
}

static void another_protocol_version_is_named(void** state) {
    (void)state;
    peer one = {.major = 9};
    sl_client* client = NULL;
    peer_start(&one, NULL);
    assert_int_equal(connect_to(&one, 0, &client), SL_E_VERSION);
    assert_says("speaks version 9.0");
    peer_stop(&one);
}

static void a_daemon_that_says_nothing_is_a_time_out(void** state) {
    (void)state;
    peer one = {.mute_from = 1};
    sl_client* client = NULL;
    peer_start(&one, NULL);
    int64_t start = now_ms();
    assert_int_equal(connect_to(&one, 50, &client), SL_TIMEOUT);
    assert_in_range(now_ms() - start, 50, 5000);
    peer_stop(&one);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_lie_in_the_header_is_refused),
        cmocka_unit_test(memory_that_could_be_cut_short_is_refused),
        cmocka_unit_test(a_file_shorter_than_its_header_is_refused),
        cmocka_unit_test(a_missing_segment_is_named),
        cmocka_unit_test(LDR_11_a_descriptor_that_is_cut_off_is_told_as_such_and_there_is_a_next_time),
        cmocka_unit_test(another_protocol_version_is_named),
        cmocka_unit_test(a_daemon_that_says_nothing_is_a_time_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
