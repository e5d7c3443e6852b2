/* A client's next connection, where its daemon has gone.
 *
 * Called by reopen.c from sl_next, on whichever thread first finds the connection lost: one of them looks for
 * a daemon and says HELLO, the others wait for it. It may take longer than a caller has time, so how far it
 * is stays in the client, and the next call goes on there. The new connection gets the number of the old
 * descriptor (dup3): whoever polls or shuts the number down meets one or the other, never a stranger's, and
 * nobody needs a lock to read it. Whose stream belongs to which connection is told by the count of them.
 *
 * Failure: who is not there yet is looked for until patience ends (SL_E_DISCONNECTED; the next call begins
 * anew); a daemon that is there and says no is believed. docs/decisions/0026-reconnection.md. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "internal.h"

/* Between two looks; the second after a daemon that died at its start, or that had no room for us. */
enum { SL_PAUSE_MS = 10, SL_LONG_PAUSE_MS = 250 };

static sl_time earlier(sl_time a, sl_time b) {
    return a < b ? a : b;
}

static sl_time after(sl_time start, sl_time length) {
    return length == SL_NEVER ? SL_NEVER : start + length;
}

static void keep_reason(sl_revival* now) {
    sl_error error = {.struct_size = sizeof error};
    (void)sl_last_error(&error);
    snprintf(now->why, sizeof now->why, "%s", error.message);
}

static void drop_attempt(sl_revival* now) {
    if (now->attempt != NULL) sl_client_drop(now->attempt);
    now->attempt = NULL;
    now->answered = false;
}

void sl_revival_end(sl_revival* now) {
    drop_attempt(now);
    if (now->child > 0) (void)sl_start_ended(now->child, SL_OK);
    now->child = 0;
}

/* The look came to nothing. */
static sl_status not_now(sl_revival* now, sl_status status) {
    drop_attempt(now);
    bool started = now->child > 0;
    if (started) (void)sl_start_ended(now->child, status);
    now->child = 0;
    keep_reason(now);
    bool long_pause = started || status == SL_E_BUDGET;
    now->next_look = sl_now() + (long_pause ? SL_LONG_PAUSE_MS : SL_PAUSE_MS) * INT64_C(1000000);
    return SL_NOT_READY;
}

/* Looks for a daemon and says HELLO. A queue in front of one that is still starting counts as being there. */
static sl_status call(sl_client* client) {
    sl_revival* now = &client->revival;
    if (sl_now() < now->next_look) return SL_NOT_READY;
    int fd = -1;
    sl_status status = sl_dial(&client->place, client->flags, &fd, &now->child);
    if (status == SL_OK) status = sl_client_new(fd, client->where, &now->attempt);
    if (status == SL_OK)
        status = sl_client_say_hello(now->attempt, client->program, SL_ROLE_CLIENT, sl_now());
    if (status != SL_OK) return not_now(now, status);
    now->answer_until = after(sl_now(), client->answer_time);
    return SL_OK;
}

static sl_status hear(sl_client* client, sl_time deadline) {
    sl_revival* now = &client->revival;
    if (now->answered) return SL_OK;
    sl_status status = sl_client_hear_hello(now->attempt, earlier(deadline, now->answer_until));
    now->answered = status == SL_OK;
    if (status == SL_TIMEOUT && sl_now() >= now->answer_until) {
        return not_now(now, status);
    }
    if (status == SL_E_DISCONNECTED || status == SL_E_BUDGET) return not_now(now, status);
    return status;
}

/* Puts the version first among those that the client has told of. */
static void tell_version(sl_client* client, sl_version_text* version) {
    sl_version_text* present = client->versions;
    if (strcmp(present->text, version->text) == 0) {
        free(version);
        return;
    }
    version->next = present;
    __atomic_store_n(&client->versions, version, __ATOMIC_RELEASE);
}

/* From here on the attempt's connection is the client's. */
static sl_status adopt(sl_client* client, sl_time deadline) {
    sl_revival* now = &client->revival;
    /* Nobody may be in a conversation over the old one. */
    sl_status status = sl_client_begin(client, 0, deadline);
    if (status != SL_OK) return status;
    while (dup3(now->attempt->socket, client->socket, O_CLOEXEC) < 0) {
        if (errno == EINTR || errno == EBUSY) continue;
        status = sl_fail(SL_E_IO, errno, "cannot replace the connection to %s", client->where);
        break;
    }
    if (status == SL_OK) {
        tell_version(client, now->attempt->versions);
        now->attempt->versions = NULL;
        __atomic_fetch_add(&client->connection, 1, __ATOMIC_RELEASE);
        now->until = 0;
        sl_revival_end(now);
        if (sl_client_has_left(client)) shutdown(client->socket, SHUT_RDWR); /* meanwhile */
    }
    sl_client_end(client);
    return status;
}

static sl_status patience_ended(sl_client* client) {
    client->revival.until = 0;
    return sl_fail(SL_E_DISCONNECTED, 0, "the connection to %s has ended, and there is no other: %s",
                   client->where, client->revival.why);
}

static void pause_until(sl_time when) {
    int ms = sl_poll_ms(when);
    if (ms > 0) poll(NULL, 0, ms);
}

static sl_status revive(sl_client* client, sl_time deadline) {
    sl_revival* now = &client->revival;
    if (now->until == 0) {
        now->until = after(sl_now(), client->patience);
        now->next_look = 0;
    }
    for (;;) {
        if (sl_client_has_left(client)) {
            return sl_fail(SL_E_DISCONNECTED, 0, "the connection to %s has ended", client->where);
        }
        sl_status status = now->attempt == NULL ? call(client) : SL_OK;
        /* In slices, for sl_disconnect may come meanwhile. */
        sl_time slice = earlier(deadline, sl_now() + SL_LONG_PAUSE_MS * INT64_C(1000000));
        if (status == SL_OK) status = hear(client, slice);
        if (status == SL_OK) status = adopt(client, slice);
        if (status == SL_OK) return SL_OK;
        if (status == SL_NOT_READY && sl_now() >= now->until) return patience_ended(client);
        if (status != SL_NOT_READY && status != SL_TIMEOUT) {
            sl_error error = {.struct_size = sizeof error};
            (void)sl_last_error(&error);
            now->until = 0;
            sl_revival_end(now);
            return sl_fail_again(&error);
        }
        if (sl_now() >= deadline) {
            return sl_fail(SL_TIMEOUT, 0, "%s has gone, and another one has not answered yet", client->where);
        }
        if (status == SL_NOT_READY) pause_until(earlier(earlier(now->next_look, deadline), now->until));
    }
}

/* Waits until nobody else is at it; false if the deadline came first. */
static bool become_reviver(sl_client* client, sl_time deadline) {
    const struct timespec until = {deadline / 1000000000, deadline % 1000000000};
    int error = 0;
    pthread_mutex_lock(&client->lock);
    while (client->revival.under_way && error == 0) {
        error = deadline == SL_NEVER ? pthread_cond_wait(&client->idle, &client->lock)
                                     : pthread_cond_timedwait(&client->idle, &client->lock, &until);
    }
    bool mine = !client->revival.under_way;
    if (mine) client->revival.under_way = true;
    pthread_mutex_unlock(&client->lock);
    return mine;
}

sl_status sl_client_revive(sl_client* client, sl_time deadline) {
    if (!sl_socket_lost(client->socket)) return SL_OK;
    if (!become_reviver(client, deadline)) {
        return sl_fail(SL_TIMEOUT, 0, "%s has gone, and another one has not answered yet", client->where);
    }
    sl_status status = sl_socket_lost(client->socket) ? revive(client, deadline) : SL_OK;
    pthread_mutex_lock(&client->lock);
    client->revival.under_way = false;
    pthread_cond_broadcast(&client->idle);
    pthread_mutex_unlock(&client->lock);
    return status;
}
