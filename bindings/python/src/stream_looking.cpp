// What a stream says of itself and of its daemon, without taking a batch. Threads and failures as in
// stream.h.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <memory>
#include <string>

#include "error.h"
#include "stream.h"

namespace nb = nanobind;

namespace sl::python {

namespace {

nb::object load_json(sl_status status, char* json) {
    std::unique_ptr<char, void (*)(void*)> text(json, &sl_free);
    check(status);
    return nb::module_::import_("json").attr("loads")(
        nb::bytes(text.get(), std::char_traits<char>::length(text.get())));
}

}  // namespace

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
    made["reconnects"] = stats.reconnects;
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

}  // namespace sl::python
