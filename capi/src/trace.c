/* Traces: the daemon's events (shm/trace.h), copied out of a memfd and checked. Any thread. */
#include "shm/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* The public event is the wire's: what is copied out need not be translated. */
#define SL_SAME(member)                                                                       \
    SL_SHM_ASSERT(offsetof(sl_trace_event, member) == offsetof(sl_shm_trace_event, member) && \
                  sizeof((sl_trace_event*)0)->member == sizeof((sl_shm_trace_event*)0)->member)
SL_SAME(begin_ns);
SL_SAME(end_ns);
SL_SAME(sample_id);
SL_SAME(step);
SL_SAME(amount);
SL_SAME(stream);
SL_SAME(epoch);
SL_SAME(batch);
SL_SAME(predicted_us);
SL_SAME(track);
SL_SAME(kind);
SL_SAME(lane);
SL_SAME(error);
SL_SHM_ASSERT(sizeof(sl_trace_event) == sizeof(sl_shm_trace_event));
SL_SHM_ASSERT((int)SL_TRACE_COLLATE == (int)SL_SHM_TRACE_COLLATE);

static sl_status take_events(const sl_client* client, const char* document, uint64_t bytes, sl_trace* trace) {
    sl_shm_trace_header header;
    if (bytes < sizeof header)
        return sl_fail(SL_E_PROTOCOL, 0, "%s sent a trace without header", client->where);
    memcpy(&header, document, sizeof header);
    bool fits = header.header_bytes >= sizeof header && header.header_bytes <= bytes &&
                header.event_bytes == sizeof(sl_trace_event) &&
                header.count == (bytes - header.header_bytes) / sizeof(sl_trace_event);
    if (!fits) {
        return sl_fail(SL_E_PROTOCOL, 0, "%s sent a trace of %llu bytes that is not %llu events of %u bytes",
                       client->where, (unsigned long long)bytes, (unsigned long long)header.count,
                       header.event_bytes);
    }
    size_t size = (size_t)header.count * sizeof(sl_trace_event);
    if (size > 0) {
        trace->events = malloc(size);
        if (trace->events == NULL) return sl_fail(SL_E_NO_MEMORY, ENOMEM, "no memory for a trace");
        memcpy(trace->events, document + header.header_bytes, size);
    }
    trace->workers = header.workers;
    trace->assemblers = header.assemblers;
    trace->count = header.count;
    trace->overwritten = header.overwritten;
    trace->now_ns = header.now_ns;
    return SL_OK;
}

sl_status sl_client_trace(sl_client* client, sl_trace* trace) {
    if (client == NULL) return sl_fail(SL_E_INVALID_ARGUMENT, 0, "a null argument");
    sl_status status = sl_check_owner(client->pid);
    if (status == SL_OK) status = sl_check_result(trace, "sl_trace");
    if (status != SL_OK) return status;
    if (trace->struct_size < sizeof *trace) {
        return sl_fail(SL_E_INVALID_ARGUMENT, 0, "sl_trace.struct_size is %u: it has no place for the events",
                       trace->struct_size);
    }
    sl_message head = {.type = SL_MSG_TRACE};
    char* document = NULL;
    uint64_t bytes = 0;
    sl_trace ours = {0};
    status = sl_client_document(client, 0, &head, sizeof head, &document, &bytes);
    if (status == SL_OK) status = take_events(client, document, bytes, &ours);
    free(document);
    sl_give_result(trace, &ours, sizeof ours);
    return status;
}
