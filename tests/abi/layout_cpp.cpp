// The shared bytes, as C++ lays them out.
#include <type_traits>

#include "shm/messages.h"
#include "shm/trace.h"

#define SIZE(type, bytes)                          \
    static_assert(sizeof(type) == (bytes), #type); \
    static_assert(std::is_standard_layout_v<type> && std::is_trivially_copyable_v<type>, #type);
#define AT(type, field, offset, bytes)                                  \
    static_assert(offsetof(type, field) == (offset), #type "." #field); \
    static_assert(sizeof(type::field) == (bytes), #type "." #field);
#include "tests/abi/layout_1.def"
