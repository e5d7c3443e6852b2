// The reader: bytes of files into buffers, asynchronously. One interface, two back ends (io_uring, threads).
//
// Called by the daemon's conductor thread only; none of the calls blocks on a disk. A request is either an
// open (path -> descriptor, size) or a read (descriptor, offset, length -> exactly that many bytes). The tag
// is the caller's and comes back with the completion; completions arrive in any order. A back end asks
// again after short reads, retries passing errors with back-off (retry_policy.h; EMFILE and ESTALE are the
// caller's business), keeps mounts apart that may fall silent (decision 0012), splits what one system call
// cannot move, and never asks beyond `length`: callers pass what fstat said, never "up to the buffer's size"
// (on FUSE with direct I/O an io_uring read beyond the end came back full of repeated bytes: measured). Every
// submitted request completes exactly once, also with errors. For an orderly end the caller reaps until
// in_flight() is zero; a reader destroyed earlier cancels or finishes what is under way, drops the
// completions and closes the descriptors in them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/mount.h"
#include "io/reach.h"
#include "shm/error.h"

namespace sl {

enum class ReaderBackend { kAuto, kUring, kThreads };

struct ReaderOptions {
    ReaderBackend backend = ReaderBackend::kAuto;
    unsigned entries = 256;  // ring entries asked for; halved down to 32 when refused (tests may start lower)
    unsigned threads = 4;    // for each user's files on each mount that threads read
    std::chrono::milliseconds retry_for{5000};  // how long passing errors are asked again
    std::span<std::byte> registered = {};  // memory to register for fixed reads; a refusal is not an error
};

struct OpenRequest {
    std::uint64_t tag = 0;
    const char* path = nullptr;  // copied
    Mount mount = {};
    std::shared_ptr<const Reach> reach = {};  // none: the daemon's own
};

struct ReadRequest {
    std::uint64_t tag = 0;
    int fd = -1;  // from an open of this reader: it knows which files io_uring reads wrongly (unsafe_files.h)
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    std::byte* destination = nullptr;  // must live until the completion, or until the reader's end
    Mount mount = {};
};

struct ReadCompletion {
    std::uint64_t tag = 0;
    bool is_open = false;       // answers an OpenRequest
    int error = 0;              // errno, 0 when it went well
    int fd = -1;                // open: the descriptor, now the caller's (close-on-exec, read-only)
    std::uint64_t size = 0;     // open: st_size of a regular file
    std::int64_t mtime_ns = 0;  // open: st_mtim
    bool blocking_only = true;  // open by threads: io_uring must not read it (unsafe_files.h)
    Mount mount = {};           // open: the request's
    std::uint64_t bytes = 0;  // read: bytes got; fewer than `length` with error 0 means the file ended early
};

class Reader {
  public:
    using Clock = std::chrono::steady_clock;

    virtual ~Reader() = default;

    // Queues requests; nothing need have been sent to the kernel before flush(). Opens of anything but a
    // regular file complete with error EISDIR (directories) or EINVAL (FIFOs, sockets, devices: never opened
    // for reading in a way that blocks).
    virtual void open(const OpenRequest& request) = 0;
    virtual void read(const ReadRequest& request) = 0;
    virtual void flush() = 0;
    // Closes a descriptor. On FUSE and NFS that asks the server, so where it may hang a thread does it,
    // later; no completion tells.
    virtual void close(int fd, const Mount& mount) = 0;

    // Appends what has completed; returns how many. Never blocks.
    virtual std::size_t reap(std::vector<ReadCompletion>& out) = 0;

    // Readable (poll, epoll) while completions wait.
    [[nodiscard]] virtual int event_fd() const = 0;

    // "uring" or "threads", and how it was set up: entries, registered bytes or why not, why not io_uring.
    [[nodiscard]] virtual std::string_view backend() const = 0;
    [[nodiscard]] virtual std::string description() const = 0;

    // Gives up the requests whose system call began before then and has not returned, each once: appends
    // their tags. They hold what they were given, and complete when the kernel lets go of them; one that
    // waits to be tried again, at once. A thread that is stuck is replaced, up to a bound (hung_mounts.h);
    // beyond, requests of that user's for that mount complete with ETIMEDOUT at once.
    virtual void give_up(Clock::time_point begun_before, std::vector<std::uint64_t>& tags) = 0;
    // Given up and not returned.
    [[nodiscard]] virtual std::size_t hung() const = 0;
    // For the end: drops what has not begun and waits so long for the rest. False if some has not returned:
    // then neither this reader nor any destination may be destroyed before the process ends.
    virtual bool finish(std::chrono::milliseconds grace) = 0;

    // Requests accepted and not yet reaped. Zero at an orderly end: requests in equal completions out.
    [[nodiscard]] virtual std::size_t in_flight() const = 0;
};

// Probes once. kAuto falls back to threads and says why in `*note` (one line: the reason and the remedy);
// kUring fails clearly instead.
Result<std::unique_ptr<Reader>> make_reader(const ReaderOptions& options, std::string* note);

}  // namespace sl
