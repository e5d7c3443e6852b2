// cmocka for C++: its header wants these includes first and C linkage. Included by every test of this folder.
#pragma once

#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>

extern "C" {
#include <cmocka.h>
}
