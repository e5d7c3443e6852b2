// Opening a stream without making Ctrl-C wait for it.
#pragma once

#include "stream.h"

namespace sl::python {

// Connects and opens on a thread of its own and waits for it, looking for signals in between. Needs the GIL.
// Throws CallFailed; nb::python_error if a signal handler raised: then the thread ends by itself and closes
// what it may still open.
Handles open_stream(const OpenOptions& options);

}  // namespace sl::python
