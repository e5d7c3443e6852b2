/* A guest worker's life: it attaches, waits for jobs, answers them, and leaves.
 *
 * The worker's half of JOB, DONE, CONTROL and SLEEP (shm/layout.h), for a process that the daemon did not
 * start: no parent-death signal tells of the daemon's end, so the socket is looked at between slices of a
 * quarter of a second, since a dead daemon rings no futex. One thread a handle. What the daemon garbles ends
 * the guest with SL_E_PROTOCOL; a job outside its segments fails like a file that cannot be read, as a
 * worker's would. */
#include "guest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "shm/fault.h"

enum { SL_SLICE_NS = 250000000, SL_ATTACH_TIMEOUT_MS = 10000 };

_Static_assert(SL_MAX_FIELDS == SL_SHM_MAX_FIELDS, "copied one by one");

static sl_time thread_cpu(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (sl_time)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Hangs up too: nobody shall wait for a guest that cannot go on. */
static sl_status stop(sl_guest* guest, sl_status status) {
    sl_error error = {.struct_size = sizeof error};
    (void)sl_last_error(&error);
    snprintf(guest->why, sizeof guest->why, "%s", error.message);
    guest->finished = status == SL_TIMEOUT ? SL_E_DISCONNECTED : status;
    shutdown(guest->client->socket, SHUT_RDWR);
    return sl_fail(guest->finished, 0, "%s", guest->why);
}

static sl_status garbled(sl_guest* guest, const char* what) {
    return stop(guest,
                sl_fail(SL_E_PROTOCOL, 0, "%s has garbled the ring of %s", guest->client->where, what));
}

sl_status sl_guest_attach(const sl_connect_options* given, uint64_t crew, uint32_t workers,
                          sl_guest** guest) {
    if (guest == NULL) return sl_fail(SL_E_INVALID_ARGUMENT, 0, "the guest's place is null");
    *guest = NULL;
    sl_connect_options options;
    sl_status status = sl_take_options(given, &options, sizeof options, "sl_connect_options");
    if (status != SL_OK) return status;
    if (workers == 0) return sl_fail(SL_E_INVALID_ARGUMENT, 0, "a crew has at least one guest");
    sl_time deadline = sl_deadline(options.timeout_ms == 0 ? SL_ATTACH_TIMEOUT_MS : options.timeout_ms);
    sl_guest* made = calloc(1, sizeof *made);
    if (made == NULL) return sl_fail(SL_E_NO_MEMORY, ENOMEM, "no memory for a guest");
    made->pid = getpid();
    made->wake_fd = -1;
    status = sl_connect_as(SL_ROLE_GUEST, given, &made->client);
    if (status == SL_OK) status = sl_guest_greet(made, crew, workers, deadline);
    if (status == SL_OK) {
        *guest = made;
        return SL_OK;
    }
    if (status == SL_E_NO_DAEMON) {
        sl_error why = {.struct_size = sizeof why};
        (void)sl_last_error(&why);
        status = sl_fail(SL_E_DISCONNECTED, 0, "%s", why.message);
    }
    sl_guest_detach(made);
    return status;
}

void sl_guest_detach(sl_guest* guest) {
    if (guest == NULL || guest->pid != getpid()) return; /* in a forked child it stays the parent's */
    if (guest->client != NULL) sl_client_drop(guest->client);
    if (guest->wake_fd >= 0) close(guest->wake_fd);
    if (guest->channel != NULL) munmap(guest->channel, sizeof *guest->channel);
    sl_guest_forget_all(guest);
    sl_rows_free(guest);
    free(guest);
}

static sl_status complete(sl_guest* guest, const sl_shm_completion* completion) {
    sl_shm_worker_channel* shared = guest->channel;
    uint32_t used = guest->completion_tail - sl_shm_load_acquire_u32(&shared->completion_head); /* REAPED */
    if (used >= SL_SHM_JOBS) return garbled(guest, "completions");
    memcpy(&shared->completions[guest->completion_tail & (SL_SHM_JOBS - 1)], completion, sizeof *completion);
    sl_shm_store_release_u32(&shared->completion_tail, ++guest->completion_tail); /* DONE */
    SL_FAULT(guest_done_said);
    sl_shm_fence_seq_cst(); /* SLEEP pair: completion_tail before daemon_sleeps */
    if (sl_shm_load_seq_cst_u32(&shared->daemon_sleeps) == 0) return SL_OK;
    uint64_t one = 1;
    while (write(guest->wake_fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
    SL_FAULT(guest_rang);
    return SL_OK;
}

/* A job that nobody can do. */
static sl_status refuse(sl_guest* guest, const sl_shm_job* job) {
    sl_shm_completion completion = {.tag = job->tag,
                                    .error_kind = SL_KIND_IO,
                                    .error_offset = -1,
                                    .begin_ns = (uint64_t)sl_now(),
                                    .message = "the daemon gave a job outside its segments"};
    completion.end_ns = completion.begin_ns;
    return complete(guest, &completion);
}

/* Finds where the job's item goes to; false: the daemon named a place outside its segments. */
static bool find_place(sl_guest* guest) {
    const sl_shm_job* job = &guest->job;
    guest->stream = sl_guest_find(guest, job->stream_id);
    if (guest->stream == NULL || guest->stream->memory->samples == NULL) return false;
    guest->batch = NULL;
    if (job->place.kind != SL_SHM_PLACE_NONE) {
        guest->batch = sl_batch_at(guest->stream, &job->place);
        if (guest->batch == NULL) return false;
    }
    if (sl_collates(guest)) return sl_rows_gather(guest);
    guest->slot = sl_slot_at(guest->stream, job->output_offset);
    if (guest->slot == NULL) return false;
    if (job->place.kind == SL_SHM_PLACE_NONE) return true;
    return job->place.kind == SL_SHM_PLACE_ROW && job->place.row < guest->stream->layout.rows;
}

/* SL_TIMEOUT: there is none. */
static sl_status take(sl_guest* guest) {
    sl_shm_worker_channel* shared = guest->channel;
    for (;;) {
        uint32_t ready = sl_shm_load_acquire_u32(&shared->job_tail) - guest->job_head; /* JOB */
        if (ready == 0) return SL_TIMEOUT;
        if (ready > SL_SHM_JOBS) return garbled(guest, "jobs");
        memcpy(&guest->job, &shared->jobs[guest->job_head & (SL_SHM_JOBS - 1)], sizeof guest->job);
        sl_shm_store_release_u32(&shared->job_head, ++guest->job_head); /* TAKEN */
        SL_FAULT(guest_job_taken);
        if (find_place(guest)) {
            guest->at_hand = true;
            ++guest->token;
            return SL_OK;
        }
        sl_status status = refuse(guest, &guest->job);
        if (status != SL_OK) return status;
    }
}

static sl_status hear(sl_guest* guest) {
    sl_status status = sl_guest_hear(guest);
    return status == SL_OK ? SL_OK : stop(guest, status);
}

static sl_status await_job(sl_guest* guest, sl_time deadline) {
    sl_shm_worker_channel* shared = guest->channel;
    for (;;) {
        uint32_t calls = sl_shm_load_acquire_u32(&shared->calls);
        uint32_t messages = sl_shm_load_acquire_u32(&shared->messages); /* CONTROL */
        sl_status status = SL_OK;
        if (messages != guest->messages_seen) status = hear(guest);
        guest->messages_seen = messages;
        if (status == SL_OK) status = take(guest);
        if (status != SL_TIMEOUT) return status;
        sl_time left = deadline == SL_NEVER ? SL_SLICE_NS : deadline - sl_now();
        if (left > 0) {
            sl_shm_store_seq_cst_u32(&shared->worker_sleeps, 1);
            sl_shm_fence_seq_cst(); /* SLEEP pair: worker_sleeps before the look at calls */
            sl_futex_sleep(&shared->calls, calls, left < SL_SLICE_NS ? left : SL_SLICE_NS);
            sl_shm_store_relaxed_u32(&shared->worker_sleeps, 0);
            if (sl_shm_load_acquire_u32(&shared->calls) != calls) continue;
        }
        /* Nobody has called: also look for messages, and for the daemon's end, without being told. */
        status = hear(guest);
        if (status != SL_OK) return status;
        if (left <= 0) return SL_TIMEOUT;
    }
}

static void give(sl_guest* guest, sl_guest_job* job) {
    const sl_shm_item_layout* layout = &guest->stream->layout;
    sl_guest_job ours = {.field_count = layout->fields,
                         .index = guest->job.sample_id,
                         .epoch = guest->job.epoch,
                         .seed = guest->job.seed,
                         .token = guest->token,
                         .stream = guest->job.stream_id};
    if (sl_collates(guest)) {
        ours.kind = SL_GUEST_COLLATE;
        ours.rows = guest->rows;
        ours.row = guest->row;
        ours.row_bytes = guest->row_bytes;
        ours.field[0] = guest->batch + layout->collated_offset;
        ours.field_bytes[0] = layout->collated_bytes;
    } else {
        for (uint32_t i = 0; i < layout->fields; i++) {
            ours.field[i] = sl_field_at(guest, i);
            ours.field_bytes[i] = layout->field[i].bytes;
        }
    }
    sl_give_result(job, &ours, sizeof ours);
    guest->thread = gettid();
    guest->begin = sl_now();
    guest->cpu = thread_cpu();
}

sl_status sl_guest_next(sl_guest* guest, int64_t timeout_ms, sl_guest_job* job) {
    if (guest == NULL) return sl_fail(SL_E_INVALID_ARGUMENT, 0, "the guest is null");
    sl_status status = sl_check_owner(guest->pid);
    if (status == SL_OK) status = sl_check_result(job, "sl_guest_job");
    if (status != SL_OK) return status;
    if (guest->finished != SL_OK) return sl_fail(guest->finished, 0, "%s", guest->why);
    if (!guest->at_hand) status = await_job(guest, timeout_ms == 0 ? 0 : sl_deadline(timeout_ms));
    if (status == SL_OK) give(guest, job);
    SL_FAULT(guest_job_given);
    return status;
}

static sl_status check_at_hand(const sl_guest* guest, const sl_guest_job* job) {
    if (guest == NULL) return sl_fail(SL_E_INVALID_ARGUMENT, 0, "the guest is null");
    sl_guest_job theirs;
    sl_status status = sl_check_owner(guest->pid);
    if (status == SL_OK) status = sl_check_result(job, "sl_guest_job");
    if (status == SL_OK) status = sl_take_options(job, &theirs, sizeof theirs, "sl_guest_job");
    if (status != SL_OK) return status;
    if (guest->finished != SL_OK) return sl_fail(guest->finished, 0, "%s", guest->why);
    if (guest->at_hand && theirs.token == guest->token) return SL_OK;
    return sl_fail(SL_E_INVALID_ARGUMENT, 0, "this is not the job at hand: it has been answered already");
}

/* How long the job has kept this guest: an item that waits for its files occupies it as well. */
static uint64_t cost(const sl_guest* guest, sl_time end) {
    sl_time passed = end - guest->begin;
    if (guest->thread != gettid()) return (uint64_t)passed; /* two threads' clocks have no difference */
    sl_time cpu = thread_cpu() - guest->cpu;
    /* The CPU clock is read after `end` and is not disciplined as the wall clock is: it may run ahead. */
    return (uint64_t)(cpu > passed || passed > 2 * cpu ? passed : cpu);
}

static sl_status answer(sl_guest* guest, uint32_t error_kind, const char* text, uint64_t written) {
    sl_time end = sl_now();
    sl_shm_completion completion = {.tag = guest->job.tag,
                                    .error_kind = error_kind,
                                    .cpu_ns = cost(guest, end),
                                    .error_offset = -1,
                                    .begin_ns = (uint64_t)guest->begin,
                                    .end_ns = (uint64_t)end,
                                    .written = written};
    size_t room = sizeof completion.message - 1;
    snprintf(completion.message, sizeof completion.message, "%s", sl_text_end(text, room));
    guest->at_hand = false;
    SL_FAULT(guest_item_made);
    return complete(guest, &completion);
}

sl_status sl_guest_done(sl_guest* guest, const sl_guest_job* job, uint64_t payload_bytes) {
    sl_status status = check_at_hand(guest, job);
    if (status != SL_OK) return status;
    const sl_shm_item_layout* layout = &guest->stream->layout;
    if (sl_collates(guest)) {
        if (payload_bytes <= layout->collated_bytes) return answer(guest, 0, "", payload_bytes);
        return sl_fail(SL_E_INVALID_ARGUMENT, 0, "batch %llu takes %llu bytes when collated; there are %llu",
                       (unsigned long long)guest->job.sample_id, (unsigned long long)payload_bytes,
                       (unsigned long long)layout->collated_bytes);
    }
    bool opaque = (layout->flags & SL_SHM_ITEM_OPAQUE) != 0;
    uint64_t most = opaque ? layout->field[0].bytes : 0;
    if (payload_bytes > most) {
        return sl_fail(SL_E_INVALID_ARGUMENT, 0,
                       "item %llu has a payload of %llu bytes; its row holds %llu%s",
                       (unsigned long long)guest->job.sample_id, (unsigned long long)payload_bytes,
                       (unsigned long long)most, opaque ? "" : ", for its rows are not of dtype \"bytes\"");
    }
    sl_slot_succeeded(guest->slot, payload_bytes);
    return answer(guest, 0, "", 0);
}

sl_status sl_guest_failed(sl_guest* guest, const sl_guest_job* job, const char* text) {
    if (text == NULL) return sl_fail(SL_E_INVALID_ARGUMENT, 0, "the text is null");
    sl_status status = check_at_hand(guest, job);
    if (status != SL_OK) return status;
    if (sl_collates(guest)) return answer(guest, SL_KIND_COLLATE, text, sl_collate_failed(guest, text));
    sl_slot_failed(guest->stream, guest->slot, text);
    return answer(guest, SL_KIND_RAISED, text, 0);
}

sl_status sl_guest_hold(sl_guest* guest, const sl_guest_job* job, sl_memory** memory) {
    if (memory == NULL) return sl_fail(SL_E_INVALID_ARGUMENT, 0, "the memory's place is null");
    *memory = NULL;
    sl_status status = check_at_hand(guest, job);
    if (status == SL_OK) *memory = sl_memory_keep(guest->stream->memory);
    return status;
}
