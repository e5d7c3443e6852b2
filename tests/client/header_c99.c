/* The public headers are C99: compiled with -std=c99 -Wall -Wextra -Wpedantic -Werror, in either order and twice. */
#include <speedyloader/guest.h>
#include <speedyloader/speedyloader.h>

/* A closed enum is 32 bits wide, so that it has one size in every language. */
typedef char status_is_32_bits[sizeof(sl_status) == 4 ? 1 : -1];
typedef char dtype_is_32_bits[sizeof(sl_dtype) == 4 ? 1 : -1];
typedef char level_is_32_bits[sizeof(sl_level) == 4 ? 1 : -1];

/* The example of the interface, as C99 writes it. */
sl_status header_c99_example(const char* spec, size_t bytes);
sl_status header_c99_example(const char* spec, size_t bytes) {
    sl_client* client = NULL;
    sl_stream* stream = NULL;
    sl_batch* batch = NULL;
    sl_connect_options options = {.struct_size = sizeof(sl_connect_options)};
    sl_status status = sl_connect(&options, &client);
    if (status == SL_OK) status = sl_open(client, spec, bytes, NULL, &stream);
    while (status == SL_OK && (status = sl_next(stream, SL_WAIT_FOREVER, &batch)) == SL_OK) {
        sl_tensor image = {.struct_size = sizeof image};
        sl_batch_tensor(batch, "image", &image);
        sl_batch_release(batch);
    }
    sl_close(stream);
    sl_disconnect(client);
    return status;
}
