// Counts every operator new; see allocations.h. All that the library may call is replaced, so that what one
// of them gives another takes back.
#include "tests/plan/allocations.h"

#include <cstdlib>
#include <new>

namespace {
std::uint64_t made = 0;
}

namespace allocations {

std::uint64_t count() {
    return made;
}

}  // namespace allocations

void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
    ++made;
    return std::malloc(bytes);
}
void* operator new(std::size_t bytes) {
    if (void* memory = operator new(bytes, std::nothrow)) return memory;
    throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}
