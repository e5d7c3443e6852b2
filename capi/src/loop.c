/* The descriptor for event loops: sl_stream_event_fd, and what keeps it truthful while a stream changes
 * daemons.
 *
 * An epoll descriptor, whose number stays, over what there is to watch: the daemon's bell and the end of the
 * connection; where the daemon has gone, a timer, at whose every tick the loop's owner calls sl_next and
 * thereby looks for the next daemon. The connection is watched by a descriptor of our own, because another
 * stream's thread may have replaced the client's before this stream has heard of its end. One thread a
 * stream. */
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "stream.h"

enum { SL_TICK_NS = 20000000 };

static bool watch(const sl_loop* loop, int fd, uint32_t events) {
    struct epoll_event event = {.events = events};
    return epoll_ctl(loop->fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static void shut(int* fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* A file may live on, the connection's in the client and any of them in a forked child: epoll would go on
 * telling of it. */
static void unwatch(const sl_loop* loop, int* fd) {
    if (*fd >= 0 && loop->fd >= 0) (void)epoll_ctl(loop->fd, EPOLL_CTL_DEL, *fd, NULL);
    shut(fd);
}

static void watch_no_more(sl_loop* loop) {
    unwatch(loop, &loop->watch_fd);
}

/* Bell and connection. Its hanging up is always reported. */
static bool watch_daemon(sl_stream* stream) {
    sl_loop* loop = &stream->loop;
    loop->watch_fd = fcntl(stream->client->socket, F_DUPFD_CLOEXEC, 0);
    if (loop->watch_fd >= 0 && watch(loop, loop->watch_fd, EPOLLRDHUP) &&
        watch(loop, loop->event_fd, EPOLLIN)) {
        /* For what was published before the daemon sees the wish, the descriptor is readable from the start
         * (shm/layout.h): the caller looks after this store. */
        sl_shm_store_seq_cst_u32(&stream->map->returns->wants_event, 1);
        sl_shm_fence_seq_cst();
        return true;
    }
    int error = errno;
    watch_no_more(loop);
    errno = error;
    return false;
}

static bool start_timer(sl_loop* loop) {
    int made = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (made < 0) return false;
    const struct itimerspec ticks = {.it_interval = {.tv_nsec = SL_TICK_NS}, .it_value = {.tv_nsec = 1}};
    loop->timer_fd = made;
    if (timerfd_settime(made, 0, &ticks, NULL) == 0 && watch(loop, made, EPOLLIN)) return true;
    shut(&loop->timer_fd);
    return false;
}

void sl_loop_drain(const sl_stream* stream) {
    const sl_loop* loop = &stream->loop;
    char rung;
    uint64_t ticks;
    while (loop->event_fd >= 0 && recv(loop->event_fd, &rung, sizeof rung, MSG_DONTWAIT) > 0) {
    }
    if (loop->timer_fd >= 0 && read(loop->timer_fd, &ticks, sizeof ticks) < 0) return; /* no tick yet */
}

void sl_loop_lost(sl_stream* stream) {
    sl_loop* loop = &stream->loop;
    if (loop->fd < 0 || loop->timer_fd >= 0) return;
    /* Without a timer the dead connection stays what is watched: the loop spins, and goes on all the same. */
    if (!start_timer(loop)) return;
    watch_no_more(loop);
    unwatch(loop, &loop->event_fd);
}

void sl_loop_found(sl_stream* stream, int event_fd) {
    sl_loop* loop = &stream->loop;
    unwatch(loop, &loop->event_fd);
    loop->event_fd = event_fd;
    if (loop->fd < 0) return;
    watch_no_more(loop);
    /* If it cannot be watched the timer stays, and batches are looked for at its ticks. */
    if (watch_daemon(stream)) unwatch(loop, &loop->timer_fd);
}

void sl_loop_close(sl_loop* loop) {
    shut(&loop->fd);
    shut(&loop->timer_fd);
    shut(&loop->watch_fd);
    shut(&loop->event_fd);
}

sl_status sl_stream_event_fd(sl_stream* stream, int* fd) {
    if (stream == NULL || fd == NULL) return sl_fail(SL_E_INVALID_ARGUMENT, 0, "a null argument");
    sl_status status = sl_check_owner(stream->pid);
    if (status != SL_OK) return status;
    sl_loop* loop = &stream->loop;
    if (loop->fd < 0) {
        loop->fd = epoll_create1(EPOLL_CLOEXEC);
        bool current = stream->connection == sl_connection(stream->client);
        if (loop->fd < 0 || !(current ? watch_daemon(stream) : start_timer(loop))) {
            int error = errno;
            shut(&loop->fd);
            return sl_fail(SL_E_IO, error, "cannot make an event descriptor");
        }
    }
    *fd = loop->fd;
    return SL_OK;
}
