/* See segment.h. */
#include "segment.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cmocka_c.h"

enum { SLOT_BYTES = 4096, SLOTS_OFFSET = 4 * 4096, RING_OFFSET = 3 * 4096 };

static void* make_file(uint64_t bytes, int* fd) {
    *fd = memfd_create("segment", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(*fd >= 0);
    assert_int_equal(ftruncate(*fd, (off_t)bytes), 0);
    void* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

static void ring_event(const segment* made) {
    assert_int_equal(send(made->event_ringer, "", 1, MSG_DONTWAIT), 1);
}

void segment_make(segment* made) {
    memset(made, 0, sizeof *made);
    made->bytes = SLOTS_OFFSET + SEGMENT_SLOTS * SLOT_BYTES;
    made->memory = make_file(made->bytes, &made->batches_fd);
    made->returns = make_file(SL_SHM_PAGE, &made->returns_fd);
    made->wake_fd = eventfd(0, EFD_CLOEXEC);
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends), 0);
    made->event_ringer = ends[0];
    made->event_fd = ends[1];
    ring_event(made); /* from the start, as the treaty wants it */
    uint64_t words = RING_OFFSET + SEGMENT_RING * sizeof(sl_shm_descriptor);
    sl_shm_batch_header header = {
        .magic = SL_SHM_MAGIC,
        .major = SL_SHM_MAJOR,
        .minor = SL_SHM_MINOR,
        .header_bytes = sizeof header,
        .segment_bytes = made->bytes,
        .stream_id = 5,
        .slot_count = SEGMENT_SLOTS,
        .ring_capacity = SEGMENT_RING,
        .batch_size = SEGMENT_ROWS,
        .tensor_count = 2,
        .slot_bytes = SLOT_BYTES,
        .ring_offset = RING_OFFSET,
        .words_offset = words,
        .info_offset = words + SEGMENT_SLOTS * sizeof(uint64_t),
        .slots_offset = SLOTS_OFFSET,
        .batches_per_epoch = 1,
        .epochs = 1,
        .samples = SEGMENT_ROWS,
        .ready = SL_SHM_READY,
        .tensors =
            {{.name = "image", .dtype = SL_SHM_UINT8, .ndim = 4, .shape = {3, 3, 7, 5}, .bytes = 315},
             {.name = "label", .dtype = SL_SHM_INT64, .ndim = 1, .shape = {3}, .offset = 512, .bytes = 24}},
        .global_batch = SEGMENT_ROWS};
    memcpy(made->memory, &header, sizeof header);
}

void segment_seal(segment* made) {
    assert_int_equal(fcntl(made->batches_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    assert_int_equal(fcntl(made->returns_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
}

void segment_publish(segment* made, const sl_shm_descriptor* descriptor) {
    uint64_t at = RING_OFFSET + made->published % SEGMENT_RING * sizeof *descriptor;
    memcpy(made->memory + at, descriptor, sizeof *descriptor);
    sl_shm_batch_live* live = (sl_shm_batch_live*)(made->memory + SL_SHM_LIVE_OFFSET);
    sl_shm_store_release_u32(&live->published, ++made->published);
    ring_event(made);
    syscall(SYS_futex, &live->published, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void segment_free(segment* made) {
    munmap(made->memory, made->bytes);
    munmap(made->returns, SL_SHM_PAGE);
    close(made->batches_fd);
    close(made->returns_fd);
    close(made->wake_fd);
    close(made->event_fd);
    close(made->event_ringer);
}
