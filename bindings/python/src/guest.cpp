#include "guest.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "error.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sl::python {

namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr double kSignalSliceMs = 50;
constexpr double kForEverMs = 1e12;  // 30 years

int get_buffer(PyObject* self, Py_buffer* buffer, int flags) {
    if (!nb::inst_ready(self)) {
        buffer->obj = nullptr;
        PyErr_SetString(PyExc_BufferError, "this field was never made");
        return -1;
    }
    const auto* field = nb::inst_ptr<GuestField>(self);
    return PyBuffer_FillInfo(buffer, self, field->data(), static_cast<Py_ssize_t>(field->bytes()),
                             field->readonly() ? 1 : 0, flags);
}

PyType_Slot kBufferSlots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&get_buffer)}, {0, nullptr}};

nb::object view_of(const GuestField& field) {
    const nb::object made = nb::cast(field);
    nb::object view = nb::steal(PyMemoryView_FromObject(made.ptr()));
    if (!view.is_valid()) throw nb::python_error();
    return view;
}

// A use after the answer is an error. Of arrays that were made of a view nobody hears; they hold the memory.
void release(nb::handle view) {
    PyObject* done = PyObject_CallMethod(view.ptr(), "release", nullptr);
    if (done == nullptr) PyErr_Clear();
    Py_XDECREF(done);
}

// Names of files in a traceback may be any bytes.
std::string utf8(const nb::str& text) {
    auto bytes = nb::steal<nb::bytes>(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace"));
    if (!bytes.is_valid()) throw nb::python_error();
    std::string made(bytes.c_str(), bytes.size());
    std::ranges::replace(made, '\0', ' ');  // the C API's texts end with one
    return made;
}

}  // namespace

Guest::Guest(const std::optional<std::string>& socket, std::uint64_t crew, std::uint32_t workers)
    : pid_(::getpid()) {
    sl_connect_options options{};
    options.struct_size = sizeof options;
    options.socket = socket ? socket->c_str() : nullptr;
    sl_status status;
    {
        ReleasedGil released;
        status = check(sl_guest_attach(&options, crew, workers, &guest_));
    }
    if (status != SL_OK) fail(SL_E_DISCONNECTED, "the daemon did not answer in time");
}

Guest::~Guest() {
    sl_guest_detach(guest_);  // in a forked child it stays the parent's
}

std::unique_lock<std::mutex> Guest::lock() {
    if (::getpid() != pid_) {
        fail(SL_E_FORKED,
             "this guest belongs to the parent process: attach one in the child, after the fork");
    }
    auto lock = mutex_.lock();
    if (closed()) {
        lock.unlock();
        raise("ClosedError", "the guest is closed");
    }
    return lock;
}

bool Guest::next(std::optional<double> timeout_s, sl_guest_job& job) {
    double timeout_ms = timeout_s ? *timeout_s * 1000 : kForEverMs;
    if (!(timeout_ms <= kForEverMs)) timeout_ms = kForEverMs;  // infinite, or no number
    const auto begin = Clock::now();
    job = {};
    job.struct_size = sizeof job;
    sl_status status;
    {
        auto held = lock();
        status = check(sl_guest_next(guest_, 0, &job));
    }
    while (status == SL_TIMEOUT) {
        check_signals();
        double left = timeout_ms - Milliseconds(Clock::now() - begin).count();
        if (left <= 0) return false;
        // Rounded up: a wait of less than a millisecond is not a busy one.
        auto slice = static_cast<std::int64_t>(std::min(left, kSignalSliceMs)) + 1;
        bool closed_meanwhile;
        {
            ReleasedGil released;
            auto held = mutex_.enter();
            closed_meanwhile = closed();
            if (!closed_meanwhile) status = check(sl_guest_next(guest_, slice, &job));
        }
        if (closed_meanwhile) raise("ClosedError", "the guest was closed by another thread");
    }
    return true;
}

std::shared_ptr<sl_memory> Guest::hold(const sl_guest_job& job) {
    auto held = lock();
    sl_memory* memory = nullptr;
    check(sl_guest_hold(guest_, &job, &memory));
    return {memory, &sl_memory_release};
}

void Guest::done(const sl_guest_job& job, std::uint64_t payload_bytes) {
    auto held = lock();
    check(sl_guest_done(guest_, &job, payload_bytes));
}

void Guest::failed(const sl_guest_job& job, const std::string& text) {
    auto held = lock();
    check(sl_guest_failed(guest_, &job, text.c_str()));
}

void Guest::close() {
    if (::getpid() != pid_ || closed_.exchange(true)) return;
    ReleasedGil released;
    auto held = mutex_.enter();  // a thread that waits leaves within a slice
    sl_guest_detach(std::exchange(guest_, nullptr));
}

GuestJob::GuestJob(nb::object owner, Guest& guest, const sl_guest_job& job)
    : owner_(std::move(owner)), guest_(guest), job_(job) {
    auto memory = guest.hold(job);
    nb::list views;
    for (std::uint32_t i = 0; i < job.field_count; ++i)
        views.append(view_of({memory, job.field[i], job.field_bytes[i], false}));
    fields_ = nb::tuple(views);
    for (std::uint32_t i = 0; i < job.rows; ++i)
        rows_.append(view_of({memory, const_cast<void*>(job.row[i]), job.row_bytes[i], true}));
}

void GuestJob::release_views() {
    for (nb::handle view : fields_)
        release(view);
    for (nb::handle view : rows_)
        release(view);
}

void GuestJob::done(std::uint64_t payload_bytes) {
    guest_.done(job_, payload_bytes);
    release_views();
}

void GuestJob::failed(const nb::str& text) {
    guest_.failed(job_, utf8(text));
    release_views();
}

void register_guest(nb::module_& module) {
    nb::class_<GuestField>(module, "GuestField", nb::type_slots(kBufferSlots),
                           "What a job's views are views of: a field of an item, or a row to collate.");
    nb::class_<GuestJob>(module, "GuestJob",
                         "An item to be made, or a batch to be collated, until it is done or has failed.")
        .def_prop_ro(
            "collate", [](const GuestJob& self) { return self.job().kind == SL_GUEST_COLLATE; },
            "Whether the rows are to become one batch.")
        .def_prop_ro(
            "rows", &GuestJob::rows,
            "To collate: read-only memoryviews of the valid rows, each as long as its item; released by "
            "done() and failed().")
        .def_prop_ro(
            "index", [](const GuestJob& self) { return self.job().index; },
            "Of the item; to collate: of the batch in its epoch.")
        .def_prop_ro("epoch", [](const GuestJob& self) { return self.job().epoch; })
        .def_prop_ro("seed", [](const GuestJob& self) { return self.job().seed; })
        .def_prop_ro(
            "stream", [](const GuestJob& self) { return self.job().stream; }, "Id, as in the status.")
        .def_prop_ro("fields", &GuestJob::fields,
                     "Writable memoryviews of bytes, a field each; released by done() and failed().")
        .def("done", &GuestJob::done, "payload_bytes"_a = 0,
             "The fields are written; of an opaque row, or a collated batch, so many bytes.")
        .def("failed", &GuestJob::failed, "text"_a,
             "The item could not be made, or the batch not collated; text goes to the report.");
    nb::class_<Guest>(module, "Guest", "This process as a guest worker of a crew.")
        .def(nb::init<const std::optional<std::string>&, std::uint64_t, std::uint32_t>(), "socket"_a.none(),
             "crew"_a, "workers"_a)
        .def(
            "next",
            [](nb::object self, std::optional<double> timeout) -> nb::object {
                auto& guest = nb::cast<Guest&>(self);
                sl_guest_job job;
                if (!guest.next(timeout, job)) return nb::none();
                return nb::cast(new GuestJob(std::move(self), guest, job), nb::rv_policy::take_ownership);
            },
            "timeout"_a = nb::none(),
            "The next job, or None if none came within `timeout` seconds (None: waits without end). A job "
            "that is "
            "neither done nor failed is given again.")
        .def("close", &Guest::close, "Leaves the crew; another guest is given the job at hand.")
        .def_prop_ro("closed", &Guest::closed);
}

}  // namespace sl::python
