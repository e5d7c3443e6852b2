/* The shared memory of one stream, checked before it is believed.
 *
 * The daemon is another process and may be another user: size, seals, magic, version and every offset +
 * length are checked before a byte beyond the header is touched, and the header is copied once so that what
 * was checked is what is used. Without F_SEAL_SHRINK the daemon could cut the file and this process would die
 * of SIGBUS, so the seal is demanded. Any thread may drop a mapping; the last one unmaps. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"
#include "shm/fault.h"

sl_status sl_check_file(int fd, uint64_t least, const char* what, uint64_t* bytes) {
    struct stat info;
    if (fstat(fd, &info) != 0) return sl_fail(SL_E_PROTOCOL, errno, "cannot examine the %s", what);
    if (info.st_size < 0 || (uint64_t)info.st_size < least) {
        return sl_fail(SL_E_PROTOCOL, 0, "the %s has only %lld bytes", what, (long long)info.st_size);
    }
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
        return sl_fail(SL_E_PROTOCOL, 0, "the %s is not sealed against shrinking", what);
    }
    *bytes = (uint64_t)info.st_size;
    return SL_OK;
}

/* Whether count items of `each` bytes from offset lie inside [0, end), without overflow. */
static bool fits(uint64_t offset, uint64_t count, uint64_t each, uint64_t end) {
    return offset <= end && (each == 0 || count <= (end - offset) / each);
}

static uint64_t item_bytes(uint32_t dtype) {
    switch (dtype) {
        case SL_SHM_UINT8:
            return 1;
        case SL_SHM_FLOAT16:
        case SL_SHM_BFLOAT16:
            return 2;
        case SL_SHM_FLOAT32:
        case SL_SHM_INT32:
            return 4;
        case SL_SHM_INT64:
        case SL_SHM_UINT64:
            return 8;
        default:
            return 0;
    }
}

static const char* tensor_fault(const sl_shm_batch_header* header, const sl_shm_tensor* tensor) {
    uint64_t bytes = item_bytes(tensor->dtype);
    if (bytes == 0) return "tensor type";
    if (memchr(tensor->name, '\0', sizeof tensor->name) == NULL) return "tensor name";
    if (tensor->ndim < 1 || tensor->ndim > 4) return "tensor shape";
    if ((tensor->flags & ~(uint64_t)SL_SHM_TENSOR_WHOLE) != 0) return "tensor flag";
    if (tensor->flags == 0 && tensor->shape[0] != (int64_t)header->batch_size) return "tensor shape";
    for (uint32_t i = 0; i < tensor->ndim; i++) {
        if (tensor->shape[i] < 0 || __builtin_mul_overflow(bytes, (uint64_t)tensor->shape[i], &bytes)) {
            return "tensor shape";
        }
    }
    if (bytes != tensor->bytes) return "tensor length";
    if (tensor->offset % SL_SHM_TENSOR_ALIGN != 0 || !fits(tensor->offset, 1, bytes, header->slot_bytes)) {
        return "tensor offset";
    }
    return NULL;
}

/* What is wrong with the numbers that positions are made of, or NULL. */
static const char* position_fault(const sl_shm_batch_header* header) {
    if (header->batches_per_epoch == 0) return "number of batches";
    if (header->first_epoch > header->epochs) return "first epoch";
    bool ended = header->first_epoch == header->epochs;
    if (header->first_batch >= header->batches_per_epoch || (ended && header->first_batch != 0)) {
        return "first batch";
    }
    if (header->global_batch < header->batch_size) return "global batch";
    if (header->last > SL_SHM_LAST_PAD) return "rule for the last batch";
    return NULL;
}

/* What is wrong with the header, or NULL. */
static const char* header_fault(const sl_shm_batch_header* header, uint64_t file_bytes) {
    uint64_t end = header->segment_bytes;
    if (header->header_bytes < sizeof *header) return "header length";
    if (end != file_bytes) return "segment length";
    if (header->slot_count == 0 || header->slot_count > SL_SHM_MAX_SLOTS) return "slot count";
    uint32_t capacity = header->ring_capacity;
    if (capacity <= header->slot_count || (capacity & (capacity - 1)) != 0) return "ring capacity";
    if (header->batch_size == 0) return "batch size";
    if (header->tensor_count == 0 || header->tensor_count > SL_SHM_ALL_TENSORS) return "tensor count";
    if (header->ring_offset < SL_SHM_HEADER_BYTES || header->ring_offset % 64 != 0 ||
        !fits(header->ring_offset, capacity, sizeof(sl_shm_descriptor), end)) {
        return "ring offset";
    }
    uint64_t rows = (uint64_t)header->slot_count * header->batch_size;
    if (header->info_offset < SL_SHM_HEADER_BYTES || header->info_offset % 8 != 0 ||
        !fits(header->info_offset, rows, sizeof(sl_shm_sample_info), end)) {
        return "info offset";
    }
    if (header->slots_offset < SL_SHM_HEADER_BYTES || header->slots_offset % SL_SHM_PAGE != 0 ||
        header->slot_bytes == 0 || header->slot_bytes % SL_SHM_PAGE != 0 ||
        !fits(header->slots_offset, header->slot_count, header->slot_bytes, end)) {
        return "slots offset";
    }
    for (uint32_t i = 0; i < header->tensor_count; i++) {
        const char* fault = tensor_fault(header, sl_shm_tensor_at(header, i));
        if (fault != NULL) return fault;
    }
    return position_fault(header);
}

static sl_status read_header(const uint8_t* segment, uint64_t file_bytes, sl_shm_batch_header* header) {
    const sl_shm_batch_header* shared = (const sl_shm_batch_header*)segment;
    /* READY: the rest of the header is visible after this. */
    uint32_t ready = sl_shm_load_acquire_u32(&shared->ready);
    memcpy(header, shared, sizeof *header);
    if (ready != SL_SHM_READY || header->magic != SL_SHM_MAGIC) {
        return sl_fail(SL_E_PROTOCOL, 0, "the batch segment is not one of SpeedyLoader's");
    }
    /* A smaller minor lacks members that are read here. */
    if (header->major != SL_SHM_MAJOR || header->minor < SL_SHM_MINOR) {
        return sl_fail(SL_E_VERSION, 0, "the batch segment has layout %u.%u, this library (%s) knows %u.%u",
                       header->major, header->minor, sl_version(), SL_SHM_MAJOR, SL_SHM_MINOR);
    }
    const char* fault = header_fault(header, file_bytes);
    if (fault != NULL) return sl_fail(SL_E_PROTOCOL, 0, "the batch segment has an impossible %s", fault);
    return SL_OK;
}

static sl_status map_failed(const char* what, uint64_t bytes) {
    return sl_fail(SL_E_NO_MEMORY, errno, "cannot map the %s (%llu bytes)", what, (unsigned long long)bytes);
}

static sl_mapping* new_mapping(const sl_shm_batch_header* header) {
    sl_mapping* made = calloc(1, sizeof *made + header->slot_count * sizeof(sl_batch));
    if (made == NULL) return NULL;
    made->refs = 1;
    made->pid = getpid();
    made->header = *header;
    for (uint32_t i = 0; i < header->slot_count; i++)
        made->batches[i].map = made;
    return made;
}

sl_status sl_mapping_new(int batches_fd, int returns_fd, int wake_fd, sl_mapping** map) {
    uint64_t bytes = 0;
    uint64_t return_bytes = 0;
    sl_status status = sl_check_file(batches_fd, SL_SHM_HEADER_BYTES, "batch segment", &bytes);
    if (status == SL_OK) {
        status = sl_check_file(returns_fd, sizeof(sl_shm_return_page), "return page", &return_bytes);
    }
    if (status != SL_OK) return status;

    /* Populated: the page tables are filled here and not at the first touch of every batch. */
    uint8_t* segment = mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, batches_fd, 0);
    if (segment == MAP_FAILED) return map_failed("batch segment", bytes);
    SL_FAULT(client_batches_mapped);
    sl_shm_batch_header header;
    status = read_header(segment, bytes, &header);
    void* returns = MAP_FAILED;
    if (status == SL_OK) {
        returns = mmap(NULL, SL_SHM_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, returns_fd, 0);
        if (returns == MAP_FAILED) status = map_failed("return page", SL_SHM_PAGE);
    }
    sl_mapping* made = status == SL_OK ? new_mapping(&header) : NULL;
    if (made == NULL) {
        if (status == SL_OK) status = sl_fail(SL_E_NO_MEMORY, ENOMEM, "no memory for a stream");
        if (returns != MAP_FAILED) munmap(returns, SL_SHM_PAGE);
        munmap(segment, (size_t)bytes);
        return status;
    }
    SL_FAULT(client_returns_mapped);
    made->segment = segment;
    made->batches_fd = batches_fd;
    made->returns = returns;
    made->wake_fd = wake_fd;
    *map = made;
    return SL_OK;
}

void sl_mapping_hold(sl_mapping* map) {
    __atomic_fetch_add(&map->refs, 1, __ATOMIC_RELAXED);
}

void sl_mapping_drop(sl_mapping* map) {
    /* acq_rel: the last one unmaps after every other's last read. */
    if (__atomic_fetch_sub(&map->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
    munmap((void*)map->segment, (size_t)map->header.segment_bytes);
    munmap(map->returns, SL_SHM_PAGE);
    close(map->batches_fd);
    close(map->wake_fd);
    free(map);
}

void sl_mapping_ring(const sl_mapping* map) {
    /* SLEEP pair with the conductor: what we stored before this fence, it sees before it sleeps, or we see
     * its flag. A counter at its maximum (EAGAIN) wakes as well as one more would. */
    sl_shm_fence_seq_cst();
    if (sl_shm_load_seq_cst_u32(&sl_live(map)->daemon_sleeps) == 0) return;
    uint64_t one = 1;
    while (write(map->wake_fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
    SL_FAULT(client_rang);
}
