/* first_batch FOLDER: the first batch of a folder of images, in plain C.
 *
 * Starts a private daemon if none runs; it leaves by itself afterwards. Every call returns a status, and
 * sl_last_error has the sentence. */
#include <inttypes.h>
#include <speedyloader/speedyloader.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed(void) {
    sl_error error = {.struct_size = sizeof error};
    sl_last_error(&error);
    fprintf(stderr, "%s: %s\n", sl_status_name(error.code), error.message);
    return 1;
}

static int show_first_batch(sl_stream* stream) {
    sl_batch* batch = NULL;
    if (sl_next(stream, 10000, &batch) != SL_OK) return failed();

    /* Zero-copy: data points into the daemon's shared memory, read-only, until the batch is released. */
    sl_tensor image = {.struct_size = sizeof image};
    sl_tensor label = {.struct_size = sizeof label};
    int result = 0;
    if (sl_batch_tensor(batch, "image", &image) != SL_OK) result = failed();
    if (sl_batch_tensor(batch, "label", &label) != SL_OK) result = failed();
    if (result == 0) {
        printf("%" PRId64 " images of %" PRId64 " x %" PRId64 " x %" PRId64 "\n", image.shape[0],
               image.shape[1], image.shape[2], image.shape[3]);
        printf("the first has label %" PRId64 " and begins with %f\n", *(const int64_t*)label.data,
               (double)*(const float*)image.data);
    }
    sl_batch_release(batch); /* from here on the daemon fills the slot again */
    return result;
}

int main(int argc, char** argv) {
    char path[4096];
    char spec[8192];
    if (argc != 2 || realpath(argv[1], path) == NULL || strpbrk(path, "\"\\") != NULL) {
        fprintf(stderr, "usage: first_batch FOLDER\n");
        return 2;
    }
    snprintf(spec, sizeof spec,
             "{\"dataset\": {\"kind\": \"image_folder\", \"path\": \"%s\"},"
             " \"pipeline\": [{\"op\": \"decode\", \"channels\": 3},"
             "                {\"op\": \"random_resized_crop\", \"size\": [224, 224]}],"
             " \"output\": {\"dtype\": \"float32\", \"layout\": \"NCHW\"},"
             " \"batch\": {\"size\": 8, \"last\": \"keep\"}}",
             path);

    sl_client* client = NULL;
    sl_stream* stream = NULL;
    if (sl_connect(NULL, &client) != SL_OK) return failed();
    int result =
        sl_open(client, spec, strlen(spec), NULL, &stream) == SL_OK ? show_first_batch(stream) : failed();
    sl_close(stream);
    sl_disconnect(client);
    return result;
}
