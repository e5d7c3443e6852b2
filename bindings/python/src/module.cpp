// The extension module speedyloader._core: handles of the C API as Python objects, nothing more.
//
// What users call is Python (../speedyloader); this file and its neighbours know no framework and link none.
#include <nanobind/nanobind.h>

#include "batch.h"
#include "error.h"
#include "guest.h"
#include "stream.h"
#include "tensor.h"

namespace nb = nanobind;

NB_MODULE(_core, module) {
    module.doc() = "SpeedyLoader's C API as Python objects; use the package speedyloader instead.";
    // Objects that are alive at the interpreter's end are no mistake: a loader in a global is one.
    nb::set_leak_warnings(false);
    sl::python::register_errors(module);
    sl::python::register_tensor(module);
    sl::python::register_batch(module);
    sl::python::register_stream(module);
    sl::python::register_guest(module);
    module.def(
        "version", [] { return sl_version(); }, "The client library's version.");
}
