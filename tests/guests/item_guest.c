/* A guest worker for the tests: makes items whose bytes say which they are, and fails in the ways it is told.
 *
 *   item_guest SOCKET CREW WORKERS [--die I] [--die-once I FILE] [--stick I] [--fail I] [--delay-us N]
 *
 * Fixed rows: the first field is filled with int64 words, index x 1000 + place; another one holds the epoch.
 * Opaque rows: index % 50 + 1 bytes, each the index's lowest. --die ends the process by SIGKILL whenever it
 * is given item I, --die-once only if FILE does not exist yet, --stick sleeps for ever, --fail says that the
 * item has failed. Prints "attached", then how it ended: the name of the status that sl_guest_next gave. */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <speedyloader/speedyloader.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NONE UINT64_MAX

static struct {
    uint64_t die, die_once, stick, fail;
    const char* file;
    unsigned delay_us;
} told = {NONE, NONE, NONE, NONE, NULL, 0};

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
        if (strcmp(argv[i], "--die") == 0) told.die = number;
        if (strcmp(argv[i], "--stick") == 0) told.stick = number;
        if (strcmp(argv[i], "--fail") == 0) told.fail = number;
        if (strcmp(argv[i], "--delay-us") == 0) told.delay_us = (unsigned)number;
        if (strcmp(argv[i], "--die-once") == 0) {
            told.die_once = number;
            told.file = argv[++i + 1];
        }
    }
}

static void misbehave(uint64_t index) {
    if (index == told.die) raise(SIGKILL);
    if (index == told.die_once && open(told.file, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600) >= 0) {
        raise(SIGKILL);
    }
    while (index == told.stick)
        pause();
    if (told.delay_us > 0) usleep(told.delay_us);
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
        misbehave(job.index);
        if (job.index == told.fail) {
            char text[256];
            snprintf(text, sizeof text,
                     "Traceback (most recent call last):\n  line 1\nValueError: item %" PRIu64 " \xc3\xa4",
                     job.index);
            status = sl_guest_failed(guest, &job, text);
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
