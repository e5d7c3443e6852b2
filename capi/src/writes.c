/* Writing to a leased batch, for those who ask: this process gets its own copy of each page it writes.
 *
 * A slot that may be written is mapped anew, MAP_PRIVATE: a page that nobody here has written is the
 * daemon's, so reading copies nothing; a write makes a private copy of its page, which hides all later
 * batches in that place until it is dropped. The other slots stay shared maps, in which nothing can hide. So
 * every release of a slot that may be written looks for such pages and drops them, before the slot is given
 * back. Threads: a lease's calls may come from any thread; leases do not disturb each other.
 *
 * A slot stays writable once it was: protecting 38.5 MB and unprotecting it again costs 0.5 to 2 ms, looking
 * at it 0.1 to 0.5 ms, and not even that if the process had no page fault during the lease, since no page is
 * copied without one. Failure: a page that cannot be dropped keeps its lease from ending, for it would spoil
 * later batches. docs/decisions/0007-writes-are-private.md. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "internal.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif

/* pages. NEAR: dropping that many clean pages is cheaper than two more system calls. */
enum { CHUNK = 512, NEAR = 16 };

/* Bits of an entry of /proc/self/pagemap (the kernel's Documentation/admin-guide/mm/pagemap.rst). */
#define PAGE_PRESENT (UINT64_C(1) << 63)
#define PAGE_OF_FILE (UINT64_C(1) << 61)

typedef struct run {
    uint8_t* start;
    uint64_t bytes;
} run;

static run slot_of(const sl_batch* batch) {
    const sl_shm_batch_header* header = &batch->map->header;
    const uint8_t* start =
        batch->map->segment + header->slots_offset + batch->descriptor.slot * header->slot_bytes;
    return (run){(uint8_t*)start, header->slot_bytes};
}

/* Page faults of all threads so far; 0 where the kernel does not count them. */
static uint64_t faults_so_far(void) {
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
    return (uint64_t)usage.ru_minflt + (uint64_t)usage.ru_majflt;
}

/* Lays a private map over the slot, at the same addresses: the kernel replaces it at once for every reader.
 * It is populated while it cannot be written, or each page would be copied; then it is made writable. */
static bool map_privately(const sl_mapping* map, run slot) {
    void* made = mmap(slot.start, (size_t)slot.bytes, PROT_READ,
                      MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE | MAP_POPULATE, map->batches_fd,
                      (off_t)(slot.start - map->segment));
    return made != MAP_FAILED && mprotect(made, (size_t)slot.bytes, PROT_READ | PROT_WRITE) == 0;
}

static bool on_page_borders(const sl_shm_batch_header* header) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return header->slots_offset % page == 0 && header->slot_bytes % page == 0;
}

sl_status sl_writes_allow(sl_batch* batch) {
    if (__atomic_load_n(&batch->writes, __ATOMIC_ACQUIRE) == SL_WRITES_ALLOWED) return SL_OK;
    if (!on_page_borders(&batch->map->header)) {
        return sl_fail(SL_E_UNSUPPORTED, 0,
                       "the batches do not lie on this machine's page borders (%ld bytes)",
                       sysconf(_SC_PAGESIZE));
    }
    /* First: even if it succeeds for a part of the slot only, releases look at it from now on. */
    uint32_t never = SL_WRITES_NEVER;
    __atomic_compare_exchange_n(&batch->writes, &never, SL_WRITES_TRIED, false, __ATOMIC_ACQ_REL,
                                __ATOMIC_ACQUIRE);
    run slot = slot_of(batch);
    if (!map_privately(batch->map, slot)) {
        return sl_fail(errno == ENOMEM ? SL_E_NO_MEMORY : SL_E_IO, errno,
                       "cannot make a batch of %llu bytes writable", (unsigned long long)slot.bytes);
    }
    __atomic_store_n(&batch->writes, SL_WRITES_ALLOWED, __ATOMIC_RELEASE);
    return SL_OK;
}

void sl_writes_begin(sl_batch* batch) {
    if (__atomic_load_n(&batch->writes, __ATOMIC_ACQUIRE) != SL_WRITES_NEVER) batch->faults = faults_so_far();
}

static bool drop(run pages) {
    if (pages.bytes == 0) return true;
    /* Pages that the process has locked must be unlocked first. */
    if (madvise(pages.start, (size_t)pages.bytes, MADV_DONTNEED) != 0 &&
        (munlock(pages.start, (size_t)pages.bytes) != 0 ||
         madvise(pages.start, (size_t)pages.bytes, MADV_DONTNEED) != 0)) {
        return false;
    }
    (void)madvise(pages.start, (size_t)pages.bytes, MADV_POPULATE_READ); /* else the first read does it */
    return true;
}

/* Drops every page but those that are surely the file's: what is unknown, moving or not there is dropped too,
 * which costs nothing but a read of it. */
static bool drop_written(run slot, int pagemap) {
    uint64_t entries[CHUNK];
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t first = (uintptr_t)slot.start / page;
    const uint64_t count = slot.bytes / page;
    uint64_t begin = 0; /* of the run that was found and not yet dropped */
    uint64_t end = 0;
    for (uint64_t at = 0; at < count; at += CHUNK) {
        uint64_t some = count - at < CHUNK ? count - at : CHUNK;
        ssize_t got =
            pread(pagemap, entries, some * sizeof *entries, (off_t)((first + at) * sizeof *entries));
        uint64_t known = got > 0 ? (uint64_t)got / sizeof *entries : 0;
        for (uint64_t i = 0; i < some; i++) {
            bool shared = i < known && (~entries[i] & (PAGE_PRESENT | PAGE_OF_FILE)) == 0;
            if (shared) continue;
            if (at + i > end + NEAR) {
                if (!drop((run){slot.start + begin * page, (end - begin) * page})) return false;
                begin = at + i;
            }
            end = at + i + 1;
        }
    }
    return drop((run){slot.start + begin * page, (end - begin) * page});
}

sl_status sl_writes_end(sl_batch* batch) {
    /* A lease that began before its slot was writable has no count and is looked at. */
    if (batch->faults != 0 && batch->faults == faults_so_far()) return SL_OK;
    run slot = slot_of(batch);
    int pagemap = open("/proc/thread-self/pagemap", O_RDONLY | O_CLOEXEC);
    bool dropped = pagemap >= 0 ? drop_written(slot, pagemap) : drop(slot);
    int why = errno;
    if (pagemap >= 0) close(pagemap);
    if (dropped) return SL_OK;
    return sl_fail(SL_E_IO, why, "the batch is not released: what was written to it cannot be dropped");
}
