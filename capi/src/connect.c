/* sl_connect: where to look for a daemon, in the order that the header states. Guests look there too, in a
 * role of their own.
 *
 * A path that the caller or the environment names is the only one tried; the system daemon is used if it
 * answers; else private.c takes over. Where one was found the client looks again if it is lost (reconnect.c).
 * Any thread. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

enum { SL_CONNECT_TIMEOUT_MS = 10000, SL_PATIENCE_MS = 5000 };
#define SL_SYSTEM_SOCKET "/run/speedyloader/speedyloader.sock"
#define SL_KNOWN_FLAGS (SL_CONNECT_NO_SPAWN | SL_CONNECT_PRIVATE)

static sl_status connect_failed(const char* path, int error) {
    unsigned uid = (unsigned)geteuid();
    switch (error) {
        case -EACCES:
        case -EPERM:
            return sl_fail(SL_E_DENIED, -error, "user %u may not use the socket %s", uid, path);
        case -EMFILE:
        case -ENFILE:
            return sl_fail(SL_E_IO, -error, "no free descriptor for a connection to %s", path);
        case -ETIMEDOUT:
            return sl_fail(SL_TIMEOUT, 0, "the daemon at %s accepts nobody", path);
        default:
            return sl_fail(SL_E_NO_DAEMON, -error, "no daemon answers at the socket %s (user %u)", path, uid);
    }
}

static sl_status greet_path(int fd, const sl_place* place, const char* program, uint32_t role,
                            sl_time deadline, sl_client** client) {
    sl_client* made = NULL;
    sl_status status = sl_client_new(fd, place->where, &made);
    if (status != SL_OK) return status;
    status = sl_client_hello(made, program, role, deadline);
    if (status != SL_OK) {
        sl_client_drop(made);
        return status;
    }
    *client = made;
    return SL_OK;
}

static sl_status check_connect(const sl_connect_options* given, sl_connect_options* options,
                               sl_client** client) {
    if (client == NULL) return sl_fail(SL_E_INVALID_ARGUMENT, 0, "the client's place is null");
    *client = NULL;
    sl_status status = sl_take_options(given, options, sizeof *options, "sl_connect_options");
    if (status != SL_OK) return status;
    if ((options->flags & ~SL_KNOWN_FLAGS) != 0) {
        return sl_fail(SL_E_INVALID_ARGUMENT, 0, "sl_connect_options.flags has unknown bits: 0x%x",
                       options->flags & ~SL_KNOWN_FLAGS);
    }
    if (options->socket != NULL && (options->flags & SL_CONNECT_PRIVATE) != 0) {
        return sl_fail(SL_E_INVALID_ARGUMENT, 0,
                       "sl_connect_options asks for a socket and for a private daemon");
    }
    if (options->socket != NULL && options->socket[0] == '\0') {
        return sl_fail(SL_E_INVALID_ARGUMENT, 0, "sl_connect_options.socket is empty");
    }
    if (options->reconnect_ms < SL_NO_RECONNECT) {
        return sl_fail(
            SL_E_INVALID_ARGUMENT, 0,
            "sl_connect_options.reconnect_ms is %lld: from 0 on, SL_WAIT_FOREVER or SL_NO_RECONNECT",
            (long long)options->reconnect_ms);
    }
    return SL_OK;
}

/* A path too long for a socket's is found out by sl_socket_connect. One that is relative, and short enough,
 * is made absolute: the next daemon is looked for at the same place wherever the program has gone meanwhile.
 */
static void path_place(sl_place* place, const char* path) {
    char folder[sizeof place->name];
    memset(place, 0, sizeof *place);
    snprintf(place->name, sizeof place->name, "%s", path);
    place->bytes = strlen(path) + 1;
    if (path[0] != '/' && getcwd(folder, sizeof folder) != NULL &&
        strlen(folder) + 1 + place->bytes <= sizeof place->name) {
        place->bytes = (size_t)snprintf(place->name, sizeof place->name, "%s/%s", folder, path) + 1;
    }
    snprintf(place->where, sizeof place->where, "the daemon at %s", path);
}

sl_status sl_dial(const sl_place* place, uint32_t flags, int* fd, pid_t* child) {
    if (place->is_private) return sl_private_dial(place, flags, sl_now(), fd, child);
    int error = sl_socket_connect(place->name, place->bytes, sl_now(), fd);
    return error == 0 ? SL_OK : connect_failed(place->name, error);
}

static sl_time patience(const sl_connect_options* options) {
    if (options->reconnect_ms == SL_NO_RECONNECT) return 0;
    int64_t ms = options->reconnect_ms == 0 ? SL_PATIENCE_MS : options->reconnect_ms;
    sl_time until = sl_deadline(ms);
    return until == SL_NEVER ? SL_NEVER : ms * 1000000;
}

/* What a later connection needs. It is made to the same place: who had the system's daemon waits for that one
 * and starts none. */
static void remember(sl_client* client, const sl_place* place, const sl_connect_options* options) {
    client->place = *place;
    client->flags = options->flags;
    const char* program = options->program != NULL ? options->program : program_invocation_short_name;
    snprintf(client->program, sizeof client->program, "%s", program);
    int64_t ms = options->timeout_ms == 0 ? SL_CONNECT_TIMEOUT_MS : options->timeout_ms;
    client->answer_time = sl_deadline(ms) == SL_NEVER ? SL_NEVER : ms * 1000000;
    client->patience = patience(options);
}

sl_status sl_connect_as(uint32_t role, const sl_connect_options* given, sl_client** client) {
    sl_connect_options options;
    sl_status status = check_connect(given, &options, client);
    if (status != SL_OK) return status;
    if (role == SL_ROLE_GUEST) options.flags |= SL_CONNECT_NO_SPAWN; /* a new daemon has no streams for it */
    sl_time deadline = sl_deadline(options.timeout_ms == 0 ? SL_CONNECT_TIMEOUT_MS : options.timeout_ms);
    sl_place place;
    int fd = -1;
    if ((options.flags & SL_CONNECT_PRIVATE) == 0) {
        const char* path = options.socket != NULL ? options.socket : secure_getenv("SPEEDYLOADER_SOCKET");
        bool named = path != NULL && path[0] != '\0';
        if (!named) path = SL_SYSTEM_SOCKET;
        int error = sl_socket_connect(path, strlen(path) + 1, deadline, &fd);
        if (error != 0 && named) return connect_failed(path, error);
        if (error == 0) path_place(&place, path);
    }
    if (fd >= 0) {
        status = greet_path(fd, &place, options.program, role, deadline, client);
    } else {
        status = sl_private_place(&place);
        if (status == SL_OK)
            status = sl_private_connect(&place, options.flags, options.program, role, deadline, client);
    }
    if (status == SL_OK) remember(*client, &place, &options);
    return status;
}

sl_status sl_connect(const sl_connect_options* options, sl_client** client) {
    return sl_connect_as(SL_ROLE_CLIENT, options, client);
}
