/* What the daemon says to a guest: first its channel and bell, then which streams come and go.
 *
 * Called by guest.c on the guest's thread, between jobs. A packet is copied and checked by socket.c; whatever
 * does not fit here ends the guest with SL_E_PROTOCOL, and none of it is a crash. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guest.h"
#include "shm/fault.h"

enum { SL_ANSWER_TIMEOUT_MS = 1000 };

const sl_guest_stream* sl_guest_find(const sl_guest* guest, uint64_t stream_id) {
    const sl_guest_stream* stream = guest->streams;
    while (stream != NULL && stream->id != stream_id)
        stream = stream->next;
    return stream;
}

static void forget(sl_guest* guest, uint64_t stream_id) {
    sl_guest_stream** place = &guest->streams;
    while (*place != NULL && (*place)->id != stream_id)
        place = &(*place)->next;
    sl_guest_stream* stream = *place;
    if (stream == NULL) return;
    *place = stream->next;
    sl_memory_release(stream->memory);
    free(stream);
}

void sl_guest_forget_all(sl_guest* guest) {
    while (guest->streams != NULL)
        forget(guest, guest->streams->id);
}

static sl_status on_layout(sl_guest* guest, const sl_pipeline_packet* packet) {
    const char* where = guest->client->where;
    if (packet->head.pipeline_bytes != sizeof packet->layout || packet->head.head.length != sizeof *packet) {
        return sl_fail(SL_E_VERSION, 0, "%s describes items in another way than this library (%s)", where,
                       sl_version());
    }
    const char* fault = sl_layout_fault(&packet->layout);
    if (fault != NULL) return sl_fail(SL_E_PROTOCOL, 0, "%s sent items with an impossible %s", where, fault);
    const sl_guest_stream* known = sl_guest_find(guest, packet->head.stream_id);
    if (known != NULL && known->memory->samples != NULL) {
        return sl_fail(SL_E_PROTOCOL, 0, "%s announced a stream twice", where);
    }
    forget(guest, packet->head.stream_id); /* an announcement that was not followed by its segments */
    sl_guest_stream* made = calloc(1, sizeof *made);
    if (made != NULL) made->memory = sl_memory_new();
    if (made == NULL || made->memory == NULL) {
        free(made);
        return sl_fail(SL_E_NO_MEMORY, ENOMEM, "no memory for a stream");
    }
    made->id = packet->head.stream_id;
    made->layout = packet->layout;
    made->next = guest->streams;
    guest->streams = made;
    return SL_OK;
}

static sl_status on_rows(sl_guest* guest, const sl_msg_segment* segment, int fd) {
    const sl_guest_stream* stream = sl_guest_find(guest, segment->stream_id);
    if (stream == NULL || stream->layout.batch_slots == 0 || stream->memory->batches != NULL) {
        return sl_fail(SL_E_PROTOCOL, 0, "%s sent rows of a stream that was not announced with any",
                       guest->client->where);
    }
    return sl_memory_map_batches(stream->memory, fd, segment->bytes, &stream->layout);
}

static sl_status on_samples(sl_guest* guest, const sl_msg_segment* segment, int fd) {
    sl_client* client = guest->client;
    const sl_guest_stream* stream = sl_guest_find(guest, segment->stream_id);
    if (stream == NULL || stream->memory->samples != NULL) {
        return sl_fail(SL_E_PROTOCOL, 0, "%s sent samples of a stream that was not announced", client->where);
    }
    if (stream->layout.batch_slots != 0 && stream->memory->batches == NULL) {
        return sl_fail(SL_E_PROTOCOL, 0, "%s sent samples of a stream before its rows", client->where);
    }
    sl_status status = sl_memory_map_samples(stream->memory, fd, segment->bytes);
    if (status != SL_OK) return status;
    SL_FAULT(guest_samples_mapped);
    sl_msg_stream answer = {.head = {.type = SL_MSG_MAPPED}, .stream_id = stream->id};
    return sl_client_send(client, &answer.head, sizeof answer, NULL, 0, -1,
                          sl_deadline(SL_ANSWER_TIMEOUT_MS));
}

static sl_status on_channel(sl_guest* guest, int fd) {
    uint64_t bytes = 0;
    sl_status status = sl_check_file(fd, sizeof(sl_shm_worker_channel), "worker channel", &bytes);
    if (status != SL_OK) return status;
    void* mapped = mmap(NULL, sizeof(sl_shm_worker_channel), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) return sl_fail(SL_E_NO_MEMORY, errno, "cannot map the worker channel");
    guest->channel = mapped;
    return SL_OK;
}

/* Takes *fd over where it sets it to -1. */
static sl_status on_segment(sl_guest* guest, const sl_msg_segment* segment, int* fd) {
    const char* where = guest->client->where;
    if (*fd < 0) return sl_fail(SL_E_PROTOCOL, 0, "%s sent a segment without descriptor", where);
    if (segment->kind == SL_SEGMENT_ROWS) return on_rows(guest, segment, *fd);
    if (segment->kind == SL_SEGMENT_SAMPLES) return on_samples(guest, segment, *fd);
    if (segment->kind == SL_SEGMENT_CHANNEL && guest->channel == NULL) return on_channel(guest, *fd);
    if (segment->kind == SL_SEGMENT_WAKE && guest->wake_fd < 0) {
        int flags = fcntl(*fd, F_GETFL);
        if (flags < 0 || fcntl(*fd, F_SETFL, flags | O_NONBLOCK) != 0) {
            return sl_fail(SL_E_IO, errno, "cannot prepare the daemon's bell");
        }
        guest->wake_fd = *fd;
        *fd = -1;
        return SL_OK;
    }
    return sl_fail(SL_E_PROTOCOL, 0, "%s sent an unexpected segment of kind %u", where, segment->kind);
}

static sl_status handle(sl_guest* guest, sl_reply* reply) {
    switch (reply->body.head.type) {
        case SL_MSG_ERROR:
            return sl_client_fail_as_told(guest->client, &reply->body.error);
        case SL_MSG_SEGMENT:
            return on_segment(guest, &reply->body.segment, &reply->fd);
        case SL_MSG_PIPELINE:
            return on_layout(guest, &reply->body.pipeline);
        case SL_MSG_FORGET:
            forget(guest, reply->body.stream.stream_id);
            return SL_OK;
        default:
            return sl_fail(SL_E_PROTOCOL, 0, "%s sent a guest a message of type %u", guest->client->where,
                           reply->body.head.type);
    }
}

static sl_status receive(sl_guest* guest, sl_time deadline) {
    sl_reply reply;
    sl_status status = sl_socket_receive(guest->client->socket, &reply, guest->client->where, deadline);
    if (status != SL_OK) return status;
    status = handle(guest, &reply);
    if (reply.fd >= 0) close(reply.fd);
    return status;
}

sl_status sl_guest_greet(sl_guest* guest, uint64_t crew, uint32_t workers, sl_time deadline) {
    sl_msg_guest message = {.head = {.type = SL_MSG_GUEST}, .crew = crew, .workers = workers};
    sl_status status = sl_client_send(guest->client, &message.head, sizeof message, NULL, 0, -1, deadline);
    while (status == SL_OK && (guest->channel == NULL || guest->wake_fd < 0))
        status = receive(guest, deadline);
    SL_FAULT(guest_equipped);
    return status;
}

sl_status sl_guest_hear(sl_guest* guest) {
    sl_status status = SL_OK;
    while (status == SL_OK && sl_socket_readable(guest->client->socket))
        status = receive(guest, sl_now());
    return status;
}
