// How often the program has allocated: for tests of what must take no memory. Linked in, allocations.cpp
// replaces operator new of the whole program. One thread.
#pragma once

#include <cstdint>

namespace allocations {

std::uint64_t count();

}  // namespace allocations
