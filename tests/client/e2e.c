/* See e2e.h. */
#include "e2e.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int64_t e2e_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

const char* e2e_spec(unsigned batch, unsigned epochs) {
    static char spec[4096];
    snprintf(spec, sizeof spec,
             "{\"dataset\": {\"kind\": \"image_folder\", \"path\": \"%s\"},"
             " \"pipeline\": [{\"op\": \"decode\", \"channels\": 3},"
             "                {\"op\": \"random_resized_crop\", \"size\": [32, 48]}],"
             " \"output\": {\"dtype\": \"uint8\", \"layout\": \"NCHW\"},"
             " \"batch\": {\"size\": %u, \"last\": \"keep\"},"
             " \"order\": {\"shuffle\": true, \"seed\": 3}, \"epochs\": %u}",
             getenv("SL_PHOTOS"), batch, epochs);
    return spec;
}

static void assert_ok(sl_status status) {
    if (status == SL_OK) return;
    sl_error error = {.struct_size = sizeof error};
    sl_last_error(&error);
    fail_msg("%s: %s", sl_status_name(status), error.message);
}

sl_client* e2e_connect_with(int64_t reconnect_ms) {
    sl_client* client = NULL;
    sl_connect_options options = {.struct_size = sizeof options,
                                  .flags = SL_CONNECT_PRIVATE,
                                  .timeout_ms = 30000,
                                  .reconnect_ms = reconnect_ms};
    assert_ok(sl_connect(&options, &client));
    return client;
}

sl_client* e2e_connect(void) {
    return e2e_connect_with(0);
}

sl_stream* e2e_open(sl_client* client, const char* spec, uint32_t slots, sl_level level) {
    sl_stream* stream = NULL;
    sl_open_options options = {.struct_size = sizeof options, .slots = slots, .level = level};
    assert_ok(sl_open(client, spec, strlen(spec), &options, &stream));
    return stream;
}

sl_batch* e2e_next(sl_stream* stream) {
    sl_batch* batch = NULL;
    assert_ok(sl_next(stream, E2E_WAIT_MS, &batch));
    return batch;
}

void e2e_begin(e2e* made, unsigned batch, unsigned epochs, uint32_t slots) {
    e2e_begin_with(made, 0, batch, epochs, slots);
}

void e2e_begin_with(e2e* made, int64_t reconnect_ms, unsigned batch, unsigned epochs, uint32_t slots) {
    made->client = e2e_connect_with(reconnect_ms);
    made->stream = e2e_open(made->client, e2e_spec(batch, epochs), slots, SL_LEVEL_BATCH);
}

void e2e_end(e2e* made) {
    assert_int_equal(sl_close(made->stream), SL_OK);
    assert_int_equal(sl_disconnect(made->client), SL_OK);
}

/* Whether the process was started with our private name. */
static int is_ours(const char* pid) {
    char wanted[96];
    char path[300];
    static char text[65536];
    snprintf(wanted, sizeof wanted, "SPEEDYLOADER_PRIVATE_NAME=%s", getenv("SPEEDYLOADER_PRIVATE_NAME"));
    snprintf(path, sizeof path, "/proc/%s/environ", pid);
    int fd = open(path, O_RDONLY);
    if (fd < 0) return 0;
    ssize_t bytes = read(fd, text, sizeof text);
    close(fd);
    for (ssize_t at = 0; at < bytes; at += (ssize_t)strnlen(text + at, (size_t)(bytes - at)) + 1) {
        if (strncmp(text + at, wanted, strlen(wanted) + 1) == 0) return 1;
    }
    return 0;
}

int e2e_daemon_processes(int signal) {
    int count = 0;
    DIR* processes = opendir("/proc");
    assert_non_null(processes);
    for (struct dirent* entry = readdir(processes); entry != NULL; entry = readdir(processes)) {
        pid_t pid = (pid_t)atoi(entry->d_name);
        /* setenv does not show in /proc/self/environ, so only what was started afterwards counts. */
        if (pid <= 0 || pid == getpid() || !is_ours(entry->d_name)) continue;
        count++;
        if (signal != 0) kill(pid, signal);
    }
    closedir(processes);
    return count;
}

unsigned e2e_open_descriptors(void) {
    unsigned count = 0;
    DIR* open_now = opendir("/proc/self/fd");
    while (readdir(open_now) != NULL)
        count++;
    closedir(open_now);
    return count;
}

uint64_t e2e_sum(const sl_batch* batch, const char* name) {
    sl_tensor tensor = {.struct_size = sizeof tensor};
    assert_ok(sl_batch_tensor(batch, name, &tensor));
    const uint8_t* bytes = tensor.data;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < tensor.bytes; i++)
        sum = sum * 31 + bytes[i];
    return sum;
}

void e2e_assert_says(const char* part) {
    sl_error error = {.struct_size = sizeof error};
    sl_last_error(&error);
    if (strstr(error.message, part) == NULL) fail_msg("\"%s\" does not say \"%s\"", error.message, part);
}
