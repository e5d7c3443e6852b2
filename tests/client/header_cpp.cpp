// The public header is C++ too: compiled as C++11 with -Wall -Wextra -Wpedantic -Werror. Names have C
// linkage, layouts are those of C.
#include <speedyloader/speedyloader.h>

#include <type_traits>

static_assert(sizeof(sl_status) == 4 && sizeof(sl_dtype) == 4 && sizeof(sl_level) == 4,
              "enums are 32 bits wide");
static_assert(std::is_standard_layout<sl_tensor>::value && std::is_trivial<sl_tensor>::value, "a C struct");
static_assert(offsetof(sl_tensor, struct_size) == 0 && offsetof(sl_stats, struct_size) == 0 &&
                  offsetof(sl_error, struct_size) == 0,
              "structs open with their size");

const char* header_cpp_example() {
    return sl_status_name(SL_END_OF_EPOCH);
}
