#include "error.h"

#include <cstdio>
#include <exception>

namespace nb = nanobind;

namespace sl::python {

namespace {

// File names may be any bytes: as Python's own file functions show them.
nb::object file_name(const char* path) {
    return nb::steal(PyUnicode_DecodeFSDefault(path));
}

nb::object text(const char* bytes) {
    return nb::steal(PyUnicode_DecodeUTF8(
        bytes, static_cast<Py_ssize_t>(std::char_traits<char>::length(bytes)), "replace"));
}

void raise(const sl_error& record) {
    nb::object make = nb::module_::import_("speedyloader.errors").attr("from_record");
    const char* kind = record.sample_kind != 0 ? sl_sample_kind_name(record.sample_kind) : "";
    nb::object error = make(sl_status_name(record.code), text(record.message), kind, record.sample_id,
                            file_name(record.path), record.offset, record.os_errno);
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
}

}  // namespace

sl_error last_error() {
    sl_error record{};
    record.struct_size = sizeof record;
    (void)sl_last_error(&record);
    return record;
}

sl_status check(sl_status status) {
    if (status < 0) throw CallFailed{last_error()};
    return status;
}

void fail(sl_status code, const char* message) {
    sl_error record{};
    record.struct_size = sizeof record;
    record.code = code;
    record.offset = -1;
    std::snprintf(record.message, sizeof record.message, "%s", message);
    throw CallFailed{record};
}

void raise(const char* type, const std::string& message) {
    nb::object made = nb::module_::import_("speedyloader.errors").attr(type);
    PyErr_SetString(made.ptr(), message.c_str());
    throw nb::python_error();
}

void check_signals() {
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

void register_errors(nb::module_&) {
    nb::register_exception_translator(
        [](const std::exception_ptr& pointer, void*) {
            try {
                std::rethrow_exception(pointer);
            } catch (const CallFailed& failed) {
                raise(failed.record);
            }
        },
        nullptr);
}

}  // namespace sl::python
