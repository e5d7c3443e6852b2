/* Deadlines. A call turns its time-out into one deadline and every wait inside it counts down to that, so
 * that interrupted and repeated waits add up to what was asked for. Any thread; nothing fails. */
#include <limits.h>
#include <time.h>

#include "internal.h"

sl_time sl_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (sl_time)now.tv_sec * 1000000000 + now.tv_nsec;
}

sl_time sl_deadline(int64_t timeout_ms) {
    /* Beyond a hundred years is for ever; it also keeps the sum below from overflowing. */
    if (timeout_ms < 0 || timeout_ms > INT64_C(3155760000000)) return SL_NEVER;
    return sl_now() + timeout_ms * 1000000;
}

int sl_poll_ms(sl_time deadline) {
    if (deadline == SL_NEVER) return -1;
    sl_time left = deadline - sl_now();
    if (left <= 0) return 0;
    sl_time ms = (left + 999999) / 1000000;
    return ms > INT_MAX ? INT_MAX : (int)ms;
}
