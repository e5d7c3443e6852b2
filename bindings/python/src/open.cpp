#include "open.h"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "error.h"
#include "gil.h"

namespace nb = nanobind;

namespace sl::python {

namespace {

constexpr std::chrono::milliseconds kSignalSlice{50};

// Shared by the caller and the opening thread; whoever is last frees it, and with it the handles.
struct Opening {
    OpenOptions options;
    std::mutex mutex;
    std::condition_variable done_changed;
    bool done = false;
    Handles handles;
    sl_status status = SL_OK;
    sl_error error{};
};

sl_status open_now(const OpenOptions& options, Handles& handles) {
    sl_connect_options connect{};
    connect.struct_size = sizeof connect;
    connect.socket = options.socket ? options.socket->c_str() : nullptr;
    connect.program = options.program.empty() ? nullptr : options.program.c_str();
    connect.reconnect_ms = options.reconnect_ms;
    sl_status status = sl_connect(&connect, &handles.client);
    if (status != SL_OK) return status;
    sl_open_options open{};
    open.struct_size = sizeof open;
    open.slots = options.slots;
    open.timeout_ms = options.timeout_ms;
    open.flags = options.allow_change ? SL_OPEN_ALLOW_CHANGE : 0;
    open.state = options.state.empty() ? nullptr : options.state.c_str();
    sl_items items{};
    if (options.items != nullptr) {
        items.struct_size = sizeof items;
        items.count = options.items->index.size();
        items.index = options.items->index.data();
        items.hints = options.items->hints.empty() ? nullptr : options.items->hints.data();
        open.items = &items;
    }
    return sl_open(handles.client, options.spec.data(), options.spec.size(), &open, &handles.stream);
}

void run(const std::shared_ptr<Opening>& opening) {
    Handles handles;
    sl_status status = open_now(opening->options, handles);
    std::lock_guard lock(opening->mutex);
    opening->status = status;
    if (status < 0) opening->error = last_error();
    opening->handles = std::move(handles);
    opening->done = true;
    opening->done_changed.notify_one();
}

}  // namespace

Handles open_stream(const OpenOptions& options) {
    auto opening = std::make_shared<Opening>();
    opening->options = options;
    std::thread([opening] { run(opening); }).detach();
    for (bool done = false; !done;) {
        {
            ReleasedGil released;
            std::unique_lock lock(opening->mutex);
            done = opening->done_changed.wait_for(lock, kSignalSlice, [&] { return opening->done; });
        }
        check_signals();
    }
    if (opening->status < 0) throw CallFailed{opening->error};
    if (opening->status != SL_OK) fail(SL_E_NO_DAEMON, "the daemon did not answer in time");
    return std::move(opening->handles);
}

}  // namespace sl::python
