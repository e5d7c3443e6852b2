/* job.c FOLDER: streams a folder once and prints how many samples came; status 1 on any error. Built against
 * the development package by test_packages.py. */
#include <inttypes.h>
#include <speedyloader/speedyloader.h>
#include <stdio.h>
#include <string.h>

static int fail(void) {
    sl_error error = {.struct_size = sizeof error};
    sl_last_error(&error);
    fprintf(stderr, "%s\n", error.message);
    return 1;
}

int main(int argc, char** argv) {
    char spec[1024];
    sl_client* client = NULL;
    sl_stream* stream = NULL;
    sl_batch* batch = NULL;
    sl_status status;
    uint64_t samples = 0;
    sl_connect_options options = {.struct_size = sizeof options};
    if (argc != 2) return 2;
    snprintf(
        spec, sizeof spec,
        "{\"dataset\": {\"kind\": \"image_folder\", \"path\": \"%s\"}, \"pipeline\": [{\"op\": \"decode\"},"
        " {\"op\": \"resize\", \"size\": [32, 32]}], \"output\": {\"dtype\": \"uint8\"},"
        " \"batch\": {\"size\": 16, \"last\": \"keep\"}}",
        argv[1]);
    if (sl_connect(&options, &client) != SL_OK) return fail();
    if (sl_open(client, spec, strlen(spec), NULL, &stream) != SL_OK) return fail();
    while ((status = sl_next(stream, 30000, &batch)) == SL_OK || status == SL_END_OF_EPOCH) {
        sl_batch_info info = {.struct_size = sizeof info};
        if (status == SL_END_OF_EPOCH) continue;
        if (sl_batch_get_info(batch, &info) != SL_OK) return fail();
        samples += info.count;
        sl_batch_release(batch);
    }
    if (status != SL_END) return fail();
    printf("%" PRIu64 " samples\n", samples);
    sl_close(stream);
    sl_disconnect(client);
    return 0;
}
