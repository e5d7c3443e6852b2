#include "stream.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "error.h"
#include "open.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sl::python {

namespace {

constexpr std::int64_t kSignalSliceMs = 50;

nb::object status_text(sl_status status) {
    switch (status) {
        case SL_END_OF_EPOCH:
            return nb::str("end_of_epoch");
        case SL_END:
            return nb::str("end");
        default:
            return nb::str("timeout");
    }
}

}  // namespace

Handles::Handles(Handles&& other) noexcept
    : client(std::exchange(other.client, nullptr)), stream(std::exchange(other.stream, nullptr)) {}

Handles& Handles::operator=(Handles&& other) noexcept {
    std::swap(client, other.client);
    std::swap(stream, other.stream);
    return *this;
}

Handles::~Handles() {
    (void)sl_close(stream);
    (void)sl_disconnect(client);
}

Stream::Stream(OpenOptions options)
    : pid_(::getpid()), copy_(options.copy), ring_full_(options.ring_full), handles_(open_stream(options)) {
    sl_stream_info info{};
    info.struct_size = sizeof info;
    check(sl_stream_get_info(handles_.stream, &info));
    slots_ = info.slots;
}

Stream::~Stream() {
    // In a forked child the library refuses, and the handles stay the parent's.
    ReleasedGil released;
    Handles(std::move(handles_));
}

void Stream::check_process() const {
    if (::getpid() == pid_) return;
    fail(SL_E_FORKED,
         "this loader belongs to the parent process: make a loader in the child, after the fork");
}

std::unique_lock<std::mutex> Stream::lock() {
    check_process();
    auto lock = mutex_.lock();
    if (closed()) {
        lock.unlock();
        raise("ClosedError", "the loader is closed");
    }
    return lock;
}

// One try, not beyond the end of an epoch that the caller goes through: another thread may have met it.
// Refuses to wait for a slot that nobody but this process could free, if it was asked to.
sl_status Stream::take(std::int64_t timeout_ms, std::uint64_t until, sl_batch** batch) {
    sl_status status;
    do {
        if (ends_ >= until) return SL_END_OF_EPOCH;
        status = sl_next(handles_.stream, timeout_ms, batch);
        if (status == SL_END_OF_EPOCH) ++ends_;
    } while (status == SL_END_OF_EPOCH);
    // Only a call that waited, or the one after it, can have changed daemons.
    bool may_have_changed = unsure_ || status != SL_OK || timeout_ms != 0;
    unsure_ = status != SL_OK;
    if (may_have_changed && !is_ring_of_today()) return status;  // what is held is of an old one
    if (status != SL_TIMEOUT || ring_full_ != RingFull::kError || leases_->count() < slots_) return status;
    return SL_NOT_READY;
}

// Whether slots_ and leases_ are those of the daemon that there is.
bool Stream::is_ring_of_today() {
    sl_stats stats{};
    stats.struct_size = sizeof stats;
    if (sl_stream_stats(handles_.stream, &stats) != SL_OK) return true;
    reconnects_.store(stats.reconnects, std::memory_order_relaxed);
    return stats.lost == 0 && rings_ == stats.reconnects;
}

// After a reconnection: what is held of the old daemon's ring takes no slot of the new one's.
void Stream::begin_ring() {
    if (rings_ == reconnects()) return;
    auto held = mutex_.lock();
    sl_stream_info info{};
    info.struct_size = sizeof info;
    if (sl_stream_get_info(handles_.stream, &info) != SL_OK) return;  // closed meanwhile
    slots_ = info.slots;
    leases_ = std::make_shared<Leases>();
    rings_ = reconnects();
}

nb::object Stream::next(std::int64_t timeout_ms, std::uint64_t until) {
    using Clock = std::chrono::steady_clock;
    auto deadline = Clock::now() + std::chrono::milliseconds(std::max<std::int64_t>(timeout_ms, 0));
    sl_batch* batch = nullptr;
    sl_status status;
    {
        auto held = lock();
        if (interrupted_.is_valid()) return std::exchange(interrupted_, nb::object());
        status = check(take(0, until, &batch));
    }
    while (status == SL_TIMEOUT) {
        check_signals();
        std::int64_t slice = kSignalSliceMs;
        if (timeout_ms >= 0) {
            auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
            if (left <= 0) return status_text(SL_TIMEOUT);
            slice = std::min(slice, left);
        }
        bool closed_meanwhile;
        {
            ReleasedGil released;
            auto held = mutex_.enter();
            closed_meanwhile = closed();
            if (!closed_meanwhile) status = check(take(slice, until, &batch));
        }
        if (closed_meanwhile) raise("ClosedError", "the loader was closed by another thread");
    }
    nb::object given = deliver(status, batch);
    // The interpreter looks for signals before the caller has what is returned here: a batch that came after
    // the signal would be lost if its handler raises, and one too many would be in the position that the
    // handler asks for.
    if (status != SL_OK || interrupted_.is_valid()) return given;
    interrupted_ = given;
    check_signals();
    if (!interrupted_.is(given)) return next(timeout_ms, until);  // the handler took it, or closed the loader
    interrupted_.reset();
    return given;
}

nb::object Stream::deliver(sl_status status, sl_batch* batch) {
    if (status == SL_NOT_READY) {
        raise("RingExhausted",
              "all " + std::to_string(slots_) +
                  " slots of the ring are held by this process: " + leases_->describe() +
                  "; let go of them, or open the loader with more slots, copy=True, or ring_full=\"copy\"");
    }
    if (status != SL_OK) return status_text(status);
    begin_ring();
    // The last free slot is never kept: with it the stream goes on however many batches the caller keeps.
    bool last_slot = ring_full_ == RingFull::kCopy && leases_->count() + 1 >= slots_;
    Batch leased(Memory::leased(batch, leases_));
    if (!copy_ && !last_slot) return nb::cast(std::move(leased));
    nb::object made;
    try {
        made = nb::cast(leased.copy());
    } catch (const std::bad_alloc&) {
        interrupted_ = nb::cast(std::move(leased));  // no sample is lost: the next call gives it
        throw;
    }
    ++copied_;
    return made;
}

void Stream::close() {
    if (::getpid() != pid_) return;
    closed_ = true;
    interrupted_.reset();
    ReleasedGil released;
    Handles closing;             // closed without the GIL, for the daemon may be slow to answer
    auto held = mutex_.enter();  // a thread that waits leaves within a slice
    closing = std::move(handles_);
}

void Stream::finish() {
    if (::getpid() != pid_) return;
    closed_ = true;
    interrupted_.reset();
    ReleasedGil released;
    Handles closing;
    auto held = mutex_.enter();
    closing.stream = std::exchange(handles_.stream, nullptr);
}

nb::object Stream::interrupted() const {
    return interrupted_.is_valid() ? interrupted_ : nb::none();
}

void register_stream(nb::module_& module) {
    nb::class_<Stream>(module, "Stream", "An open stream with its own connection; Loader stands on it.")
        .def(
            "__init__",
            [](Stream* self, std::string spec, std::optional<std::string> socket, std::string program,
               std::string state, bool allow_change, std::uint32_t slots, bool copy, bool ring_full_is_error,
               std::int64_t timeout_ms, std::int64_t reconnect_ms, nb::handle items) {
                new (self) Stream({std::move(spec), std::move(state), allow_change, std::move(socket),
                                   std::move(program), slots, copy,
                                   ring_full_is_error ? RingFull::kError : RingFull::kCopy, timeout_ms,
                                   reconnect_ms, take_items(items)});
            },
            "spec"_a, "socket"_a = nb::none(), "program"_a = "", "state"_a = "", "allow_change"_a = false,
            "slots"_a = 0, "copy"_a = false, "ring_full_is_error"_a = false, "timeout_ms"_a = 0,
            "reconnect_ms"_a = 0, "items"_a = nb::none())
        .def("next", &Stream::next, "timeout_ms"_a, "until"_a,
             "A Batch, or 'end_of_epoch' once `until` epochs have ended, 'end', 'timeout'.")
        .def("check_process", &Stream::check_process, "ForkedError in a child of the process that opened it.")
        .def_prop_ro("interrupted", &Stream::interrupted,
                     "The batch that a signal's handler came in front of, or None; the next call gives it.")
        .def("close", &Stream::close, "Ends the stream and the connection; batches that are held stay valid.")
        .def("finish", &Stream::finish, "Ends the stream alone; the connection stays until close().")
        .def_prop_ro("closed", &Stream::closed)
        .def_prop_ro("reconnects", &Stream::reconnects, "Daemons that were lost and followed by another one.")
        .def("state", &Stream::state, "The position as JSON text.")
        .def("info", &Stream::info, "Sizes of the stream.")
        .def("stats", &Stream::stats, "Counters since the opening.")
        .def("report", &Stream::report, "The epochs' accounts and who failed.")
        .def("status", &Stream::status, "The daemon's status.");
}

}  // namespace sl::python
