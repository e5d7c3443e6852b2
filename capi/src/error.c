/* The calling thread's error record and the names of codes.
 *
 * Every failing call writes the record with sl_fail just before it returns; sl_last_error copies it out. The
 * record is thread-local, so nothing here locks. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

static _Thread_local sl_error last = {.code = SL_OK, .offset = -1};

sl_status sl_fail(sl_status code, int os_errno, const char* format, ...) {
    memset(&last, 0, sizeof last);
    last.code = code;
    last.os_errno = os_errno;
    last.offset = -1;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last.message, sizeof last.message, format, arguments);
    va_end(arguments);
    if (os_errno != 0) {
        size_t used = strlen(last.message);
        char text[96];
        /* The GNU strerror_r returns the text, wherever it put it. */
        snprintf(last.message + used, sizeof last.message - used, ": %s",
                 strerror_r(os_errno, text, sizeof text));
    }
    return code;
}

bool sl_is_error_code(int32_t code) {
    return code <= SL_E_INVALID_ARGUMENT && code >= SL_E_UNSUPPORTED;
}

sl_status sl_fail_stream(const sl_shm_stream_error* page) {
    sl_status code = sl_is_error_code(page->status) ? (sl_status)page->status : SL_E_PROTOCOL;
    memset(&last, 0, sizeof last);
    last.code = code;
    last.os_errno = page->os_errno;
    last.sample_kind = page->sample_kind;
    last.sample_id = page->sample_id;
    last.offset = page->offset;
    _Static_assert(sizeof last.message == sizeof page->message, "copied whole");
    _Static_assert(sizeof last.path == sizeof page->path, "copied whole");
    memcpy(last.message, page->message, sizeof last.message - 1);
    memcpy(last.path, page->path, sizeof last.path - 1);
    return code;
}

sl_status sl_fail_again(const sl_error* error) {
    last = *error;
    return last.code;
}

sl_status sl_last_error(sl_error* error) {
    if (error == NULL || error->struct_size < 2 * sizeof(uint32_t)) return SL_E_INVALID_ARGUMENT;
    sl_give_result(error, &last, sizeof last);
    return SL_OK;
}

const char* sl_status_name(sl_status status) {
    switch (status) {
        case SL_OK:
            return "SL_OK";
        case SL_END_OF_EPOCH:
            return "SL_END_OF_EPOCH";
        case SL_END:
            return "SL_END";
        case SL_TIMEOUT:
            return "SL_TIMEOUT";
        case SL_NOT_READY:
            return "SL_NOT_READY";
        case SL_E_INVALID_ARGUMENT:
            return "SL_E_INVALID_ARGUMENT";
        case SL_E_NO_MEMORY:
            return "SL_E_NO_MEMORY";
        case SL_E_DISCONNECTED:
            return "SL_E_DISCONNECTED";
        case SL_E_PROTOCOL:
            return "SL_E_PROTOCOL";
        case SL_E_VERSION:
            return "SL_E_VERSION";
        case SL_E_FORKED:
            return "SL_E_FORKED";
        case SL_E_NO_DAEMON:
            return "SL_E_NO_DAEMON";
        case SL_E_DENIED:
            return "SL_E_DENIED";
        case SL_E_NOT_FOUND:
            return "SL_E_NOT_FOUND";
        case SL_E_SPEC:
            return "SL_E_SPEC";
        case SL_E_DATASET:
            return "SL_E_DATASET";
        case SL_E_BUDGET:
            return "SL_E_BUDGET";
        case SL_E_SAMPLE:
            return "SL_E_SAMPLE";
        case SL_E_TOO_MANY_FAILURES:
            return "SL_E_TOO_MANY_FAILURES";
        case SL_E_IO:
            return "SL_E_IO";
        case SL_E_INTERNAL:
            return "SL_E_INTERNAL";
        case SL_E_UNSUPPORTED:
            return "SL_E_UNSUPPORTED";
        case SL_STATUS_32_BITS:
            break;
    }
    return "unknown";
}

const char* sl_sample_kind_name(uint32_t kind) {
    /* In the order of SampleErrorKind in shm/error.h, which only appends. */
    static const char* const names[] = {"none",
                                        "not_found",
                                        "denied",
                                        "changed",
                                        "timeout",
                                        "io",
                                        "empty",
                                        "truncated",
                                        "corrupt",
                                        "unsupported_format",
                                        "unsupported_coding",
                                        "unsupported_dtype",
                                        "shape_mismatch",
                                        "pixel_budget",
                                        "byte_budget",
                                        "poison",
                                        "raised",
                                        "collate"};
    return kind < sizeof names / sizeof names[0] ? names[kind] : "unknown";
}

const char* sl_version(void) {
    return SL_VERSION_TEXT;
}
