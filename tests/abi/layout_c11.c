/* The shared bytes, as C11 lays them out. */
#include "shm/messages.h"
#include "shm/trace.h"

#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type);
#define AT(type, field, offset, bytes)                                   \
    _Static_assert(offsetof(type, field) == (offset), #type "." #field); \
    _Static_assert(sizeof(((type*)0)->field) == (bytes), #type "." #field);
#include "tests/abi/layout_1.def"

_Static_assert(SL_SHM_MAJOR == 1, "another major version has a list of its own");
