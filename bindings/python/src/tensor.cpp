#include "tensor.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "dlpack.h"
#include "error.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sl::python {

namespace {

struct Kind {
    const char* name;     // NumPy's and the frameworks' word
    const char* format;   // struct module's, for the buffer protocol; null: it has none
    const char* typestr;  // NumPy's
    std::size_t bytes;
};

// By sl_dtype. Formats 'q' and 'Q' have 8 bytes on every machine that this runs on.
constexpr Kind kKinds[] = {{"float32", "f", "<f4", 4},        {"float16", "e", "<f2", 2},
                           {"bfloat16", nullptr, nullptr, 2}, {"uint8", "B", "|u1", 1},
                           {"int64", "q", "<i8", 8},          {"uint64", "Q", "<u8", 8},
                           {"int32", "i", "<i4", 4}};

const Kind& kind(const sl_tensor& view) {
    return kKinds[static_cast<std::size_t>(view.dtype)];
}

nb::tuple to_tuple(const std::int64_t* values, std::int32_t count) {
    nb::list list;
    for (std::int32_t i = 0; i < count; ++i)
        list.append(values[i]);
    return nb::tuple(list);
}

constexpr const char* kNoBfloat16 =
    "NumPy and the buffer protocol have no bfloat16: use Batch.numpy() with the package ml_dtypes, or "
    "DLPack";

// Shape and strides must live as long as the buffer.
struct BufferShape {
    Py_ssize_t shape[SL_MAX_DIMS];
    Py_ssize_t strides[SL_MAX_DIMS];
};

bool asks_for(int flags, int wish) {
    return (flags & wish) == wish;
}

// Rows first and columns first are the same where at most one dimension has more than one element.
bool is_line(const sl_tensor& view) {
    return std::count_if(view.shape, view.shape + view.ndim, [](std::int64_t n) { return n > 1; }) <= 1;
}

// Why a buffer of these flags cannot be had, or null.
const char* refusal(const Tensor& tensor, int flags) {
    if (kind(tensor.view()).format == nullptr) return kNoBfloat16;
    if (asks_for(flags, PyBUF_WRITABLE) && tensor.read_only()) {
        return "the batch is read-only; copy=True gives memory of your own";
    }
    if (asks_for(flags, PyBUF_F_CONTIGUOUS) && !is_line(tensor.view())) {
        return "the tensor is row-major, not column-major";
    }
    return nullptr;
}

int get_buffer(PyObject* self, Py_buffer* buffer, int flags) {
    if (!nb::inst_ready(self)) {
        buffer->obj = nullptr;
        PyErr_SetString(PyExc_BufferError, "this tensor was never made");
        return -1;
    }
    const auto* tensor = nb::inst_ptr<Tensor>(self);
    const sl_tensor& view = tensor->view();
    const Kind& type = kind(view);
    buffer->obj = nullptr;
    if (const char* why = refusal(*tensor, flags)) {
        PyErr_SetString(PyExc_BufferError, why);
        return -1;
    }
    auto* shape = new BufferShape;
    for (std::int32_t i = 0; i < view.ndim; ++i) {
        shape->shape[i] = view.shape[i];
        shape->strides[i] = view.strides[i] * static_cast<Py_ssize_t>(type.bytes);
    }
    buffer->buf = const_cast<void*>(view.data);
    buffer->len = static_cast<Py_ssize_t>(view.bytes);
    buffer->itemsize = static_cast<Py_ssize_t>(type.bytes);
    buffer->readonly = tensor->read_only() ? 1 : 0;
    buffer->ndim = view.ndim;
    buffer->format = (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(type.format) : nullptr;
    buffer->shape = (flags & PyBUF_ND) != 0 ? shape->shape : nullptr;
    buffer->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? shape->strides : nullptr;
    buffer->suboffsets = nullptr;
    buffer->internal = shape;
    buffer->obj = self;
    Py_INCREF(self);
    return 0;
}

void release_buffer(PyObject*, Py_buffer* buffer) {
    delete static_cast<BufferShape*>(buffer->internal);
}

PyType_Slot kBufferSlots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&get_buffer)},
                              {Py_bf_releasebuffer, reinterpret_cast<void*>(&release_buffer)},
                              {0, nullptr}};

std::string describe(const Tensor& tensor) {
    std::string shape = nb::str(tensor.shape()).c_str();
    return std::string("speedyloader.Tensor(shape=") + shape + ", dtype=" + tensor.dtype() +
           (tensor.read_only() ? ", read-only)" : ")");
}

}  // namespace

Tensor::Tensor(std::shared_ptr<const Memory> memory, std::size_t index)
    : memory_(std::move(memory)), view_(memory_->tensors()[index].tensor) {}

const char* Tensor::dtype() const {
    return kind(view_).name;
}

std::size_t Tensor::item_bytes() const {
    return kind(view_).bytes;
}

nb::tuple Tensor::shape() const {
    return to_tuple(view_.shape, view_.ndim);
}

nb::tuple Tensor::strides() const {
    return to_tuple(view_.strides, view_.ndim);
}

nb::dict Tensor::array_interface() const {
    const Kind& type = kind(view_);
    // AttributeError: NumPy takes the absence of the attribute for "ask otherwise".
    if (type.typestr == nullptr) throw nb::attribute_error(kNoBfloat16);
    nb::dict made;
    made["shape"] = shape();
    made["typestr"] = type.typestr;
    made["data"] = nb::make_tuple(reinterpret_cast<std::uintptr_t>(view_.data), read_only());
    made["strides"] = nb::none();  // row-major, packed
    made["version"] = 3;
    return made;
}

void register_tensor(nb::module_& module) {
    nb::class_<Tensor>(module, "Tensor", nb::type_slots(kBufferSlots),
                       R"(One tensor of a batch, in host memory.

Read-only and shared with the daemon (zero-copy), or writable and private if the batch was copied. Whatever is
made of it (`torch.from_dlpack`, `numpy.asarray`, `memoryview`, ...) keeps the batch's memory alive. A
framework that writes to it all the same (in place, as PyTorch does) changes this process's view only, until
the batch is let go of. Rows are packed, row-major; the data starts on a 256-byte border.)")
        .def_prop_ro("shape", &Tensor::shape,
                     "Elements of each dimension; the first is the batch's row count.")
        .def_prop_ro("strides", &Tensor::strides, "Elements from one index to the next, as in DLPack.")
        .def_prop_ro("dtype", &Tensor::dtype,
                     "'float32', 'float16', 'bfloat16', 'uint8', 'int64', 'uint64' or 'int32'.")
        .def_prop_ro(
            "ndim", [](const Tensor& self) { return self.view().ndim; }, "Dimensions.")
        .def_prop_ro("itemsize", &Tensor::item_bytes, "Bytes of an element.")
        .def_prop_ro(
            "nbytes", [](const Tensor& self) { return self.view().bytes; }, "Bytes of all elements.")
        .def_prop_ro(
            "data_ptr", [](const Tensor& self) { return reinterpret_cast<std::uintptr_t>(self.view().data); },
            "Address of the first element.")
        .def_prop_ro("readonly", &Tensor::read_only,
                     "Whether it lies in the ring: NumPy and the buffer protocol refuse writes then.")
        .def_prop_ro(
            "device", [](const Tensor&) { return "cpu"; }, "'cpu'.")
        .def("__len__", [](const Tensor& self) { return self.view().shape[0]; })
        .def("__repr__", &describe)
        .def("__dlpack__", &Tensor::dlpack, nb::kw_only(), "stream"_a = nb::none(),
             "max_version"_a = nb::none(), "dl_device"_a = nb::none(), "copy"_a = nb::none(),
             R"(The tensor as a DLPack capsule: versioned if `max_version` is at least (1, 0), else legacy.

`stream` is accepted and not needed, since the data is complete. `copy=True` copies; so does a forked child,
and a process without memory for pages that may be written, unless `copy=False`. BufferError: a device other
than the host was asked for, or `copy=False` where only a copy can be had.)")
        .def(
            "__dlpack_device__", [](const Tensor&) { return std::pair<int, int>(dlpack::kCpu, 0); },
            "(1, 0): host memory.")
        .def(
            "capsule", [](const Tensor& self) { return self.dlpack(nb::none(), {}, {}, {}); },
            "A legacy DLPack capsule, for consumers that take no objects (TensorFlow).")
        .def(
            "__array__",
            [](nb::object self, nb::object dtype, nb::object copy) {
                nb::object array = nb::module_::import_("speedyloader.frameworks").attr("to_numpy")(self);
                return nb::module_::import_("numpy").attr("array")(array, dtype, "copy"_a = copy);
            },
            "dtype"_a = nb::none(), "copy"_a = nb::none(),
            "For NumPy, which asks here only where it knows no other way: bfloat16, through ml_dtypes.")
        .def_prop_ro("__array_interface__", &Tensor::array_interface, "NumPy's array interface, version 3.");
}

}  // namespace sl::python
