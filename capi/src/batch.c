/* A leased batch: its tensors, its rows, and its return.
 *
 * Any thread, in any order, also after the stream and the client are closed: a lease holds the mapping.
 * Memory is read-only unless writes were allowed (writes.c), and then only this process sees them; the only
 * shared words written are this lease's own in the return page. */
#include <string.h>

#include "internal.h"
#include "shm/fault.h"

_Static_assert((int)SL_FLOAT32 == SL_SHM_FLOAT32 && (int)SL_FLOAT16 == SL_SHM_FLOAT16 &&
                   (int)SL_BFLOAT16 == SL_SHM_BFLOAT16 && (int)SL_UINT8 == SL_SHM_UINT8 &&
                   (int)SL_INT64 == SL_SHM_INT64 && (int)SL_UINT64 == SL_SHM_UINT64 &&
                   (int)SL_INT32 == SL_SHM_INT32,
               "public types are the treaty's");
_Static_assert((int)SL_LANES == SL_SHM_LANES, "public lanes are the treaty's");

static sl_status check_lease(const sl_batch* batch) {
    if (batch == NULL) return sl_fail(SL_E_INVALID_ARGUMENT, 0, "the batch is null");
    sl_status status = sl_check_owner(batch->map->pid);
    if (status != SL_OK) return status;
    if (__atomic_load_n(&batch->state, __ATOMIC_ACQUIRE) == SL_BATCH_LEASED) return SL_OK;
    return sl_fail(SL_E_INVALID_ARGUMENT, 0, "the batch has been released");
}

static void describe(const sl_batch* batch, const sl_shm_tensor* from, sl_tensor* tensor) {
    const sl_shm_batch_header* header = &batch->map->header;
    bool whole = (from->flags & SL_SHM_TENSOR_WHOLE) != 0;
    int64_t count = whole ? from->shape[0] : (int64_t)batch->descriptor.count;
    sl_tensor ours = {.dtype = (sl_dtype)from->dtype,
                      .data = batch->map->segment + header->slots_offset +
                              batch->descriptor.slot * header->slot_bytes + from->offset,
                      .bytes = whole ? from->bytes : from->bytes / header->batch_size * (uint64_t)count,
                      .ndim = (int32_t)from->ndim,
                      .device_type = SL_DEVICE_CPU};
    int64_t stride = 1;
    for (uint32_t i = from->ndim; i-- > 0;) {
        ours.shape[i] = i == 0 ? count : from->shape[i];
        ours.strides[i] = stride;
        stride *= from->shape[i];
    }
    sl_give_result(tensor, &ours, sizeof ours);
}

static sl_status no_such_tensor(const sl_shm_batch_header* header, const char* name) {
    char names[SL_SHM_ALL_TENSORS * sizeof header->tensors[0].name + 1] = "";
    for (uint32_t i = 0; i < header->tensor_count; i++) {
        strcat(names, " ");
        strcat(names, sl_shm_tensor_at(header, i)->name);
    }
    return sl_fail(SL_E_NOT_FOUND, 0, "no tensor \"%s\"; there are:%s", name, names);
}

sl_status sl_batch_tensor(const sl_batch* batch, const char* name, sl_tensor* tensor) {
    sl_status status = check_lease(batch);
    if (status == SL_OK) status = sl_check_result(tensor, "sl_tensor");
    if (status != SL_OK) return status;
    if (name == NULL) return sl_fail(SL_E_INVALID_ARGUMENT, 0, "the tensor's name is null");
    const sl_shm_batch_header* header = &batch->map->header;
    for (uint32_t i = 0; i < header->tensor_count; i++) {
        if (strcmp(sl_shm_tensor_at(header, i)->name, name) == 0) {
            describe(batch, sl_shm_tensor_at(header, i), tensor);
            return SL_OK;
        }
    }
    return no_such_tensor(header, name);
}

sl_status sl_batch_tensor_count(const sl_batch* batch, uint32_t* count) {
    sl_status status = check_lease(batch);
    if (status != SL_OK) return status;
    if (count == NULL) return sl_fail(SL_E_INVALID_ARGUMENT, 0, "count is null");
    *count = batch->map->header.tensor_count;
    return SL_OK;
}

sl_status sl_batch_tensor_at(const sl_batch* batch, uint32_t index, const char** name, sl_tensor* tensor) {
    sl_status status = check_lease(batch);
    if (status == SL_OK) status = sl_check_result(tensor, "sl_tensor");
    if (status != SL_OK) return status;
    const sl_shm_batch_header* header = &batch->map->header;
    if (index >= header->tensor_count) {
        return sl_fail(SL_E_NOT_FOUND, 0, "tensor %u of %u", index, header->tensor_count);
    }
    if (name != NULL) *name = sl_shm_tensor_at(header, index)->name;
    describe(batch, sl_shm_tensor_at(header, index), tensor);
    return SL_OK;
}

sl_status sl_batch_get_info(const sl_batch* batch, sl_batch_info* info) {
    sl_status status = check_lease(batch);
    if (status == SL_OK) status = sl_check_result(info, "sl_batch_info");
    if (status != SL_OK) return status;
    const sl_shm_descriptor* descriptor = &batch->descriptor;
    sl_batch_info ours = {.count = descriptor->count,
                          .epoch = descriptor->epoch,
                          .batch = descriptor->batch,
                          .step = descriptor->step};
    sl_give_result(info, &ours, sizeof ours);
    return SL_OK;
}

void sl_copy_sample(const sl_batch* batch, uint32_t row, sl_sample_info* info) {
    const sl_shm_batch_header* header = &batch->map->header;
    uint64_t index = (uint64_t)batch->descriptor.slot * header->batch_size + row;
    sl_shm_sample_info from;
    memcpy(&from, batch->map->segment + header->info_offset + index * sizeof from, sizeof from);
    sl_sample_info ours = {.lane = from.lane,
                           .sample_id = from.sample_id,
                           .planned_id = from.planned_id,
                           .valid = from.valid,
                           .predicted_us = from.predicted_us,
                           .actual_us = from.actual_us};
    sl_give_result(info, &ours, sizeof ours);
}

sl_status sl_batch_sample(const sl_batch* batch, uint32_t row, sl_sample_info* info) {
    sl_status status = check_lease(batch);
    if (status == SL_OK) status = sl_check_result(info, "sl_sample_info");
    if (status != SL_OK) return status;
    if (row >= batch->descriptor.count) {
        return sl_fail(SL_E_NOT_FOUND, 0, "row %u of %u", row, batch->descriptor.count);
    }
    sl_copy_sample(batch, row, info);
    return SL_OK;
}

sl_status sl_batch_allow_writes(sl_batch* batch) {
    sl_status status = check_lease(batch);
    return status == SL_OK ? sl_writes_allow(batch) : status;
}

sl_status sl_batch_release(sl_batch* batch) {
    if (batch == NULL) return SL_OK;
    sl_mapping* map = batch->map;
    sl_status status = sl_check_owner(map->pid);
    if (status != SL_OK) return status;
    uint32_t slot = batch->descriptor.slot;
    uint32_t generation = batch->descriptor.generation;
    uint32_t leased = SL_BATCH_LEASED;
    if (!__atomic_compare_exchange_n(&batch->state, &leased, SL_BATCH_FREE, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED)) {
        return sl_fail(SL_E_INVALID_ARGUMENT, 0, "the batch had been released already");
    }
    if (__atomic_load_n(&batch->writes, __ATOMIC_ACQUIRE) != SL_WRITES_NEVER) {
        /* Before RETURN: the slot is nobody else's while its pages are dropped. */
        status = sl_writes_end(batch);
        if (status != SL_OK) {
            __atomic_store_n(&batch->state, SL_BATCH_LEASED, __ATOMIC_RELEASE);
            return status;
        }
    }
    /* RETURN: every read of the tensors comes before this store. From here on another thread may get the same
     * handle for the slot's next batch: only the mapping, which this lease still holds, is touched. */
    SL_FAULT(client_before_return);
    sl_shm_store_release_u32(&map->returns->generation[slot], generation);
    SL_FAULT(client_returned);
    sl_mapping_ring(map);
    sl_mapping_drop(map);
    return SL_OK;
}
