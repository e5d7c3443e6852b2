/* The order of a stream of items, on its way to the daemon: ITEMS, part by part, right before OPEN.
 *
 * Called by stream.c and by opening.c, which holds the connection's turn, so that no other opening comes in
 * between. Kept in a memfd, which streams share that are opened again: the next daemon gets the same if this
 * one goes. What the hints are worth the daemon judges. Any thread. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stream.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U /* Linux 6.3; older headers lack the name */
#endif

_Static_assert(SL_NO_ITEM == SL_SHM_NO_ITEM, "sent as it is");

sl_status sl_items_check(const sl_items* given, sl_items* items) {
    sl_status status = sl_take_options(given, items, sizeof *items, "sl_items");
    if (status != SL_OK) return status;
    if (items->count == 0 || items->index == NULL) {
        return sl_fail(SL_E_INVALID_ARGUMENT, 0, "sl_items has %s",
                       items->count == 0 ? "no position (count is 0)" : "no index");
    }
    if (items->count > INT64_MAX / (2 * sizeof(uint64_t))) {
        return sl_fail(SL_E_INVALID_ARGUMENT, 0, "sl_items.count is %llu: no memory has so much room",
                       (unsigned long long)items->count);
    }
    return SL_OK;
}

/* 0 or an errno. */
static int write_all(int fd, const void* from, uint64_t bytes, uint64_t at) {
    const uint8_t* source = from;
    for (uint64_t done = 0; done < bytes;) {
        ssize_t written = pwrite(fd, source + done, (size_t)(bytes - done), (off_t)(at + done));
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return errno;
        done += (uint64_t)written;
    }
    return 0;
}

static int fill(int fd, const sl_items* items) {
    uint64_t bytes = items->count * sizeof(uint64_t);
    int error = write_all(fd, items->index, bytes, 0);
    if (error == 0 && items->hints != NULL) error = write_all(fd, items->hints, bytes, bytes);
    return error;
}

sl_status sl_items_file(const sl_items* items, int* fd) {
    const char* name = "speedyloader-items";
    int made = memfd_create(name, MFD_CLOEXEC | MFD_NOEXEC_SEAL);
    if (made < 0 && errno == EINVAL) made = memfd_create(name, MFD_CLOEXEC);
    if (made < 0) return sl_fail(SL_E_NO_MEMORY, errno, "cannot make a file for an order of items");
    int error = fill(made, items);
    if (error != 0) {
        close(made);
        return sl_fail(SL_E_NO_MEMORY, error, "cannot write an order of %llu items",
                       (unsigned long long)items->count);
    }
    *fd = made;
    return SL_OK;
}

sl_status sl_items_send(sl_client* client, const sl_wanted* wanted, sl_time deadline) {
    enum { PART = (SL_MESSAGE_MAX - sizeof(sl_msg_items)) / sizeof(uint64_t) * sizeof(uint64_t) };
    char* body = malloc(PART);
    if (body == NULL) return sl_fail(SL_E_NO_MEMORY, ENOMEM, "no memory to send an order of items");
    uint64_t bytes = wanted->items * sizeof(uint64_t) * (wanted->hints ? 2 : 1);
    sl_status status = SL_OK;
    uint32_t part = 0;
    for (uint64_t at = 0; at < bytes && status == SL_OK;) {
        ssize_t got = pread(wanted->items_fd, body, bytes - at < PART ? bytes - at : PART, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0 || got % (ssize_t)sizeof(uint64_t) != 0) {
            status = sl_fail(SL_E_IO, got < 0 ? errno : 0, "cannot read an order of items back");
            break;
        }
        sl_msg_items message = {.head = {.type = SL_MSG_ITEMS},
                                .count = wanted->items,
                                .has_hints = wanted->hints ? 1 : 0,
                                .part = part++};
        status = sl_client_send(client, &message.head, sizeof message, body, (size_t)got, -1, deadline);
        at += (uint64_t)got;
    }
    free(body);
    return status;
}
