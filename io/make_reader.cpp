// Chooses the reader's back end. Called once by the daemon before any client is let in.
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "io/reader.h"
#include "io/thread_reader.h"
#include "io/uring_reader.h"

namespace sl {

namespace {

std::string name_of(int error) {
    const char* name = ::strerrorname_np(error);
    return name != nullptr ? name : std::to_string(error);
}

std::string cause_of(int error) {
    switch (error) {
        case EPERM:
        case EACCES:
            return "a container filter, or kernel.io_uring_disabled";
        case ENOSYS:
            return "the kernel was built without it, or a container filter";
        case EOPNOTSUPP:
            return "the kernel is older than 5.6";
        case ENOMEM:
            return "the limit on locked memory, or no memory left";
        default:
            return std::strerror(error);
    }
}

std::string remedy_for(int error) {
    switch (error) {
        case EPERM:
        case EACCES:
            return "allow io_uring_setup, io_uring_enter and io_uring_register in the container's seccomp "
                   "profile "
                   "and set kernel.io_uring_disabled=0 to use it";
        case ENOMEM:
            return "raise the limit on locked memory (ulimit -l) to use it";
        default:
            return "Linux 5.6 or newer with io_uring is needed to use it";
    }
}

template <class T>
Result<std::unique_ptr<Reader>> as_reader(Result<std::unique_ptr<T>> made) {
    if (!made) return std::unexpected(std::move(made.error()));
    return std::unique_ptr<Reader>(std::move(*made));
}

}  // namespace

Result<std::unique_ptr<Reader>> make_reader(const ReaderOptions& options, std::string* note) {
    if (note != nullptr) note->clear();
    if (options.backend == ReaderBackend::kThreads) return as_reader(ThreadReader::create(options));

    auto uring = UringReader::create(options);
    if (uring) return as_reader(std::move(uring));
    int error = uring.error().os_errno;
    std::string refusal = "io_uring refused (" + name_of(error) + ": " + cause_of(error) + ")";
    if (options.backend == ReaderBackend::kUring) {
        std::string message = refusal + " but asked for: " + remedy_for(error) + ", or let the reader choose";
        return std::unexpected(Error{Status::kUnsupported, std::move(message), error});
    }
    auto threads = ThreadReader::create(options);
    if (threads && note != nullptr) {
        *note = refusal + ": reading with " + std::to_string((*threads)->thread_count()) + " threads; " +
                remedy_for(error);
    }
    return as_reader(std::move(threads));
}

}  // namespace sl
