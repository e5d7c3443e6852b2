/* cmocka needs four headers before its own, in C as in C++. */
#ifndef SL_TESTS_CLIENT_CMOCKA_C_H
#define SL_TESTS_CLIENT_CMOCKA_C_H

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#endif
