/* A guest worker for the tests: makes items whose bytes say which they are, and fails in the ways it is told.
 *
 *   item_guest SOCKET CREW WORKERS [--die I] [--die-once I FILE] [--stick I] [--fail I] [--delay-us N]
 *       [--die-in-batch B] [--die-once-in-batch B FILE] [--stick-in-batch B] [--fail-batch B]
 *
 * Fixed rows: the first field is filled with int64 words, index x 1000 + place; another one holds the epoch.
 * Opaque rows: index % 50 + 1 bytes, each the index's lowest. A collated batch: its rows, one behind the
 * other.
 * --die ends the process by SIGKILL whenever it is given item I, with the item's first field half written,
 * --die-once only if FILE does not exist yet, --stick sleeps for ever, --fail says that the item has failed;
 * the others do so with a batch to collate. Prints "attached", then how it ended: the name of the status that
 * sl_guest_next gave. */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <speedyloader/speedyloader.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NONE UINT64_MAX

struct orders {
    uint64_t die, die_once, stick, fail;
    const char* file;
};
static struct orders of_items = {NONE, NONE, NONE, NONE, NULL};
static struct orders of_batches = {NONE, NONE, NONE, NONE, NULL};
static unsigned delay_us;

static int complain(const char* what) {
    sl_error error = {.struct_size = sizeof error};
    sl_last_error(&error);
    printf("%s\n", sl_status_name(error.code));
    fprintf(stderr, "%s: %s\n", what, error.message);
    return 1;
}

static void listen_to(int argc, char** argv) {
    for (int i = 4; i + 1 < argc; i += 2) {
        uint64_t number = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--delay-us") == 0) delay_us = (unsigned)number;
        struct orders* told = strstr(argv[i], "-batch") != NULL ? &of_batches : &of_items;
        if (strncmp(argv[i], "--stick", 7) == 0) told->stick = number;
        if (strncmp(argv[i], "--fail", 6) == 0) told->fail = number;
        if (strncmp(argv[i], "--die-once", 10) == 0) {
            told->die_once = number;
            told->file = argv[++i + 1];
        } else if (strncmp(argv[i], "--die", 5) == 0) {
            told->die = number;
        }
    }
}

static void die(const sl_guest_job* job) {
    memset(job->field[0], 0x5a, job->field_bytes[0] / 2);
    raise(SIGKILL);
}

static void misbehave(const struct orders* told, const sl_guest_job* job) {
    if (job->index == told->die) die(job);
    if (job->index == told->die_once &&
        open(told->file, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600) >= 0) {
        die(job);
    }
    while (job->index == told->stick)
        pause();
    if (delay_us > 0) usleep(delay_us);
}

static uint64_t collate(const sl_guest_job* job) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < job->rows; i++) {
        memcpy((char*)job->field[0] + bytes, job->row[i], job->row_bytes[i]);
        bytes += job->row_bytes[i];
    }
    return bytes;
}

static uint64_t fill(const sl_guest_job* job, int opaque) {
    if (opaque) {
        uint64_t bytes = job->index % 50 + 1;
        memset(job->field[0], (int)(job->index & 0xff), bytes);
        return bytes;
    }
    int64_t* words = job->field[0];
    for (uint64_t i = 0; i < job->field_bytes[0] / sizeof *words; i++)
        words[i] = (int64_t)(job->index * 1000 + i);
    if (job->field_count > 1) *(int64_t*)job->field[1] = (int64_t)job->epoch;
    return 0;
}

int main(int argc, char** argv) {
    if (argc < 4) return 2;
    listen_to(argc, argv);
    sl_connect_options options = {.struct_size = sizeof options, .socket = argv[1], .program = "item_guest"};
    sl_guest* guest;
    uint64_t crew = strtoull(argv[2], NULL, 16);
    if (sl_guest_attach(&options, crew, (uint32_t)atoi(argv[3]), &guest) != SL_OK) return complain("attach");
    printf("attached\n");
    fflush(stdout);
    sl_guest_job job = {.struct_size = sizeof job};
    sl_status status;
    while ((status = sl_guest_next(guest, SL_WAIT_FOREVER, &job)) == SL_OK) {
        int batch = job.kind == SL_GUEST_COLLATE;
        const struct orders* told = batch ? &of_batches : &of_items;
        misbehave(told, &job);
        if (job.index == told->fail) {
            char text[256];
            snprintf(text, sizeof text,
                     "Traceback (most recent call last):\n  line 1\nValueError: %s %" PRIu64 " \xc3\xa4",
                     batch ? "batch" : "item", job.index);
            status = sl_guest_failed(guest, &job, text);
        } else if (batch) {
            status = sl_guest_done(guest, &job, collate(&job));
        } else {
            /* A row of bytes is recognised by its size, which no fixed row of these tests has. */
            status = sl_guest_done(guest, &job, fill(&job, job.field_bytes[0] == 4096));
        }
        if (status != SL_OK) return complain("answer");
    }
    complain("next");
    sl_guest_detach(guest);
    return 0;
}
