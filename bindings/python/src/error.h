// Statuses of the C API as Python exceptions.
//
// A failed call throws CallFailed with the calling thread's error record; nanobind hands it to the
// translator, which asks speedyloader.errors for the exception object. The record belongs to the thread, so
// it is taken at once, before the GIL changes hands.
#pragma once

#include <nanobind/nanobind.h>
#include <speedyloader/speedyloader.h>

#include <string>

namespace sl::python {

struct CallFailed {
    sl_error record;
};

// This thread's record of the call that has just failed.
sl_error last_error();

// Throws CallFailed if the status is an error. States (the end of an epoch, a time-out) pass.
sl_status check(sl_status status);

// An error of this binding's own.
[[noreturn]] void fail(sl_status code, const char* message);

// For what the C API has no status: raises that class of speedyloader.errors. Needs the GIL.
[[noreturn]] void raise(const char* type, const std::string& message);

// Raises nb::python_error if a signal handler raised (KeyboardInterrupt). Needs the GIL.
void check_signals();

void register_errors(nanobind::module_& module);

}  // namespace sl::python
