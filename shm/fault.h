/* Fault points: places where a test has a process killed or stopped. C and C++.
 *
 * SPEEDYLOADER_FAULT=NAME:SIGKILL[:N], or SIGSTOP: whoever comes to SL_FAULT(NAME) for the N-th time (the
 * first, without N) raises the signal there, once. Only with SL_TEST_HOOKS; else SL_FAULT is nothing at all,
 * whatever its name. A name that fault_points.h does not have does not compile with hooks. Any thread; a
 * point stands in one source file, which counts for itself. */
#ifndef SL_SHM_FAULT_H
#define SL_SHM_FAULT_H

#ifdef SL_TEST_HOOKS

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "shm/fault_points.h"

#define SL_FAULT_NUMBER(name, time, what) SL_FAULT_##name,
enum sl_fault_point { SL_FAULT_POINTS(SL_FAULT_NUMBER) SL_FAULT_COUNT };
#undef SL_FAULT_NUMBER

/* The N of the environment's order if it is for this point, or 0. */
static inline long sl_fault_wanted(const char* name, int* what) {
    const char* order = getenv("SPEEDYLOADER_FAULT");
    size_t length = strlen(name);
    if (order == NULL || strncmp(order, name, length) != 0 || order[length] != ':') return 0;
    order += length + 1;
    *what = strncmp(order, "SIGSTOP", 7) == 0 ? SIGSTOP : SIGKILL;
    order += 7;
    return *order == ':' ? strtol(order + 1, NULL, 10) : 1;
}

static inline void sl_fault_at(enum sl_fault_point point, const char* name) {
    static long reached[SL_FAULT_COUNT];
    int what = 0;
    long wanted = sl_fault_wanted(name, &what);
    if (wanted != 0 && __atomic_add_fetch(&reached[point], 1, __ATOMIC_RELAXED) == wanted) raise(what);
}

/* The daemon has started a worker: the next ones are not to die of the same order. */
static inline void sl_fault_passed_on(void) {
    const char* order = getenv("SPEEDYLOADER_FAULT");
    if (order != NULL && strncmp(order, "worker_", 7) == 0) unsetenv("SPEEDYLOADER_FAULT");
}

#define SL_FAULT(name) sl_fault_at(SL_FAULT_##name, #name)
#define SL_FAULT_PASSED_ON() sl_fault_passed_on()

#else

#define SL_FAULT(name) ((void)0)
#define SL_FAULT_PASSED_ON() ((void)0)

#endif

#endif
