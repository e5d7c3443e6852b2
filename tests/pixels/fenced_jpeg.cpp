// The allocator of fenced_jpeg.h: libjpeg's memory manager is a table of functions, and two of them change.
#include "tests/pixels/fenced_jpeg.h"

#include <sys/mman.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <map>

// clang-format off: jpeglib.h uses size_t and FILE without including what defines them
#include <jpeglib.h>
// clang-format on

namespace {

constexpr std::size_t kPages = std::size_t{256} << 10;  // a picture's objects; bigger ones go to libjpeg
constexpr std::size_t kAlign = 64;                      // libjpeg's own rows want 32

struct Fence {
    jpeg_memory_mgr original{};
    std::byte* pages = nullptr;
    std::size_t used = 0;
};

std::uint64_t closed = 0;

// By memory manager, since libjpeg has no room for one more pointer in it.
Fence& fence_of(j_common_ptr library) {
    static std::map<const jpeg_memory_mgr*, Fence> fences;
    return fences[library->mem];
}

void* allocate(j_common_ptr library, int pool, std::size_t bytes) {
    Fence& fence = fence_of(library);
    if (fence.pages == nullptr) {
        void* pages = mmap(nullptr, kPages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pages == MAP_FAILED) std::abort();
        fence.pages = static_cast<std::byte*>(pages);
        fence.used = 0;
    }
    const std::size_t rounded = (bytes + kAlign - 1) / kAlign * kAlign;
    if (pool != JPOOL_IMAGE || rounded > kPages - fence.used) {
        return fence.original.alloc_small(library, pool, bytes);
    }
    std::byte* object = fence.pages + fence.used;
    fence.used += rounded;
    return object;
}

void release(j_common_ptr library, int pool) {
    Fence& fence = fence_of(library);
    fence.original.free_pool(library, pool);
    if (pool != JPOOL_IMAGE || fence.pages == nullptr) return;
    // A fresh mapping over the old one gives the memory back and keeps the addresses taken.
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    if (mmap(fence.pages, kPages, PROT_NONE, flags, -1, 0) == MAP_FAILED) std::abort();
    fence.pages = nullptr;
    ++closed;
}

}  // namespace

std::uint64_t sl::test::fenced_pictures() {
    return closed;
}

// The names are the linker's, for --wrap.
extern "C" void __real_jpeg_CreateDecompress(j_decompress_ptr library, int version, std::size_t size);

extern "C" void __wrap_jpeg_CreateDecompress(j_decompress_ptr library, int version, std::size_t size) {
    __real_jpeg_CreateDecompress(library, version, size);
    auto* common = reinterpret_cast<j_common_ptr>(library);
    fence_of(common) = {*library->mem, nullptr, 0};
    library->mem->alloc_small = allocate;
    library->mem->free_pool = release;
}
