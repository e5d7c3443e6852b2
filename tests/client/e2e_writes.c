/* Batches that are written all over, and streams that must give the same. Called by the tests about writing
 * only; what is not as promised fails the running test. */
#include "e2e_writes.h"

#include <stdio.h>
#include <string.h>

bytes tensor_bytes(const sl_batch* batch, const char* name) {
    sl_tensor tensor = {.struct_size = sizeof tensor};
    assert_int_equal(sl_batch_tensor(batch, name, &tensor), SL_OK);
    return (bytes){(uint8_t*)tensor.data, tensor.bytes};
}

sl_batch* next_in_any_epoch(sl_stream* stream) {
    sl_batch* batch = NULL;
    sl_status status;
    do
        status = sl_next(stream, E2E_WAIT_MS, &batch);
    while (status == SL_END_OF_EPOCH);
    assert_int_equal(status, SL_OK);
    return batch;
}

void scribble(sl_batch* batch) {
    assert_int_equal(sl_batch_allow_writes(batch), SL_OK);
    uint32_t count = 0;
    assert_int_equal(sl_batch_tensor_count(batch, &count), SL_OK);
    for (uint32_t i = 0; i < count; i++) {
        sl_tensor tensor = {.struct_size = sizeof tensor};
        assert_int_equal(sl_batch_tensor_at(batch, i, NULL, &tensor), SL_OK);
        uint8_t* byte = (uint8_t*)tensor.data;
        for (uint64_t b = 0; b < tensor.bytes; b++)
            byte[b] = (uint8_t)~byte[b];
    }
}

void assert_same(const sl_batch* one, const sl_batch* other) {
    uint32_t count = 0;
    assert_int_equal(sl_batch_tensor_count(one, &count), SL_OK);
    for (uint32_t i = 0; i < count; i++) {
        const char* name = NULL;
        sl_tensor tensor = {.struct_size = sizeof tensor};
        assert_int_equal(sl_batch_tensor_at(one, i, &name, &tensor), SL_OK);
        bytes there = tensor_bytes(other, name);
        assert_int_equal(there.count, tensor.bytes);
        assert_memory_equal(there.at, tensor.data, tensor.bytes);
    }
}

void assert_same_batches(sl_stream* one, sl_stream* other, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        sl_batch* ours = next_in_any_epoch(one);
        sl_batch* theirs = next_in_any_epoch(other);
        assert_same(ours, theirs);
        assert_int_equal(sl_batch_release(ours), SL_OK);
        assert_int_equal(sl_batch_release(theirs), SL_OK);
    }
}

void begin_pair(pair* made) {
    e2e_begin(&made->writer, BATCH, EPOCHS, SLOTS);
    e2e_begin(&made->reader, BATCH, EPOCHS, SLOTS);
}

void begin_large_pair(pair* made) {
    const char* small = e2e_spec(BATCH, EPOCHS);
    const char* size = strstr(small, "[32, 48]");
    assert_non_null(size);
    char spec[4096];
    snprintf(spec, sizeof spec, "%.*s[224, 224]%s", (int)(size - small), small, size + strlen("[32, 48]"));
    made->writer.client = e2e_connect();
    made->reader.client = e2e_connect();
    made->writer.stream = e2e_open(made->writer.client, spec, SLOTS, SL_LEVEL_BATCH);
    made->reader.stream = e2e_open(made->reader.client, spec, SLOTS, SL_LEVEL_BATCH);
}

void end_pair(pair* made) {
    e2e_end(&made->writer);
    e2e_end(&made->reader);
}
