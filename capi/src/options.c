/* Structs whose size the caller states (convention 4 of the header): options come in, results go out.
 *
 * A shorter struct is an older program's: members it does not have are zero. A longer one is a newer
 * program's: an option this library does not know must be zero, a result it does not know is set to zero. */
#include <string.h>

#include "internal.h"

/* The first members of every public struct; less cannot be a struct of ours. */
enum { SL_SMALLEST = 2 * sizeof(uint32_t), SL_LARGEST = 65536 };

static uint32_t stated_size(const void* theirs) {
    uint32_t size;
    memcpy(&size, theirs, sizeof size);
    return size;
}

sl_status sl_check_result(const void* theirs, const char* name) {
    if (theirs == NULL) return sl_fail(SL_E_INVALID_ARGUMENT, 0, "%s is null", name);
    uint32_t size = stated_size(theirs);
    if (size < SL_SMALLEST || size > SL_LARGEST) {
        return sl_fail(SL_E_INVALID_ARGUMENT, 0, "%s.struct_size is %u: set it to sizeof(%s)", name, size,
                       name);
    }
    return SL_OK;
}

sl_status sl_take_options(const void* theirs, void* ours, size_t our_size, const char* name) {
    memset(ours, 0, our_size);
    if (theirs == NULL) return SL_OK;
    sl_status status = sl_check_result(theirs, name);
    if (status != SL_OK) return status;
    uint32_t size = stated_size(theirs);
    const uint8_t* bytes = theirs;
    for (size_t i = our_size; i < size; i++) {
        if (bytes[i] != 0) {
            return sl_fail(SL_E_INVALID_ARGUMENT, 0,
                           "%s has an option at byte %zu that speedyloader %s does not know", name, i,
                           sl_version());
        }
    }
    memcpy(ours, theirs, size < our_size ? size : our_size);
    return SL_OK;
}

void sl_give_result(void* theirs, const void* ours, size_t our_size) {
    uint32_t size = stated_size(theirs);
    size_t known = size < our_size ? size : our_size;
    uint8_t* to = theirs;
    const uint8_t* from = ours;
    memcpy(to + sizeof size, from + sizeof size, known - sizeof size); /* struct_size stays the caller's */
    memset(to + known, 0, size - known);
}
