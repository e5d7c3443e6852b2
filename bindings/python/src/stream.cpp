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

nb::object load_json(sl_status status, char* json) {
    std::unique_ptr<char, void (*)(void*)> text(json, &sl_free);
    check(status);
    return nb::module_::import_("json").attr("loads")(
        nb::bytes(text.get(), std::char_traits<char>::length(text.get())));
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
    if (status != SL_TIMEOUT || ring_full_ != RingFull::kError || leases_->count() < slots_) return status;
    return SL_NOT_READY;
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
    Handles closing;      // closed without the GIL, for the daemon may be slow to answer
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

std::string Stream::state() {
    auto held = lock();
    char text[SL_STATE_MAX];
    check(sl_stream_state(handles_.stream, text, sizeof text));
    return text;
}

nb::dict Stream::info() {
    auto held = lock();
    sl_stream_info info{};
    info.struct_size = sizeof info;
    check(sl_stream_get_info(handles_.stream, &info));
    const char* version = "";
    check(sl_daemon_version(handles_.client, &version));
    std::string daemon_version = version;
    held.unlock();  // as in document()
    nb::dict made;
    made["batch_size"] = info.batch_size;
    made["batches_per_epoch"] = info.batches_per_epoch;
    made["samples"] = info.samples;
    made["epochs"] = info.epochs;
    made["first_epoch"] = info.first_epoch;
    made["first_batch"] = info.first_batch;
    made["slots"] = info.slots;
    made["daemon_version"] = daemon_version;
    return made;
}

nb::dict Stream::stats() {
    auto held = lock();
    sl_stats stats{};
    stats.struct_size = sizeof stats;
    check(sl_stream_stats(handles_.stream, &stats));
    held.unlock();  // as in document()
    nb::dict made;
    made["batches"] = stats.batches;
    made["samples"] = stats.samples;
    made["ready"] = stats.ready;
    made["failed"] = stats.failed;
    made["substituted"] = stats.substituted;
    made["warnings"] = stats.warnings;
    made["retried"] = stats.retried;
    made["bytes_read"] = stats.bytes_read;
    made["decode_s"] = static_cast<double>(stats.decode_ns) * 1e-9;
    nb::dict lanes;
    constexpr const char* kLanes[SL_LANES] = {"light", "medium", "heavy"};
    for (int lane = 0; lane < SL_LANES; ++lane)
        lanes[kLanes[lane]] = stats.lane_samples[lane];
    made["lanes"] = lanes;
    double predicted = static_cast<double>(std::max<std::uint64_t>(stats.predicted, 1));
    made["prediction_error"] = static_cast<double>(stats.absolute_error_ppm) * 1e-6 / predicted;
    made["class_errors"] = static_cast<double>(stats.class_errors) / predicted;
    made["wait_s"] = static_cast<double>(stats.wait_ns) * 1e-9;
    made["waits"] = stats.waits;
    made["ring_full_s"] = static_cast<double>(stats.ring_full_ns) * 1e-9;
    made["slots"] = slots_;
    made["held"] = leases_->count();
    made["copied"] = copied_;
    return made;
}

// A document of the C API; `ask` writes it to its argument.
template <class Ask>
nb::object Stream::document(Ask ask) {
    auto held = lock();
    char* json = nullptr;
    sl_status status;
    {
        ReleasedGil released(&held);
        status = ask(handles_, &json);
    }
    held.unlock();  // Python runs from here on: a signal handler or a finaliser may call this stream
    return load_json(status, json);
}

nb::object Stream::report() {
    return document(
        [](const Handles& handles, char** json) { return sl_stream_report(handles.stream, json); });
}

nb::object Stream::status() {
    return document(
        [](const Handles& handles, char** json) { return sl_client_status(handles.client, json); });
}

void register_stream(nb::module_& module) {
    nb::class_<Stream>(module, "Stream", "An open stream with its own connection; Loader stands on it.")
        .def(
            "__init__",
            [](Stream* self, std::string spec, std::optional<std::string> socket, std::string program,
               std::string state, bool allow_change, std::uint32_t slots, bool copy, bool ring_full_is_error,
               std::int64_t timeout_ms, nb::handle items) {
                new (self) Stream({std::move(spec), std::move(state), allow_change, std::move(socket),
                                   std::move(program), slots, copy,
                                   ring_full_is_error ? RingFull::kError : RingFull::kCopy, timeout_ms,
                                   take_items(items)});
            },
            "spec"_a, "socket"_a = nb::none(), "program"_a = "", "state"_a = "", "allow_change"_a = false,
            "slots"_a = 0, "copy"_a = false, "ring_full_is_error"_a = false, "timeout_ms"_a = 0,
            "items"_a = nb::none())
        .def("next", &Stream::next, "timeout_ms"_a, "until"_a,
             "A Batch, or 'end_of_epoch' once `until` epochs have ended, 'end', 'timeout'.")
        .def("check_process", &Stream::check_process, "ForkedError in a child of the process that opened it.")
        .def_prop_ro("interrupted", &Stream::interrupted,
                     "The batch that a signal's handler came in front of, or None; the next call gives it.")
        .def("close", &Stream::close, "Ends the stream and the connection; batches that are held stay valid.")
        .def("finish", &Stream::finish, "Ends the stream alone; the connection stays until close().")
        .def_prop_ro("closed", &Stream::closed)
        .def("state", &Stream::state, "The position as JSON text.")
        .def("info", &Stream::info, "Sizes of the stream.")
        .def("stats", &Stream::stats, "Counters since the opening.")
        .def("report", &Stream::report, "The epochs' accounts and who failed.")
        .def("status", &Stream::status, "The daemon's status.");
}

}  // namespace sl::python
