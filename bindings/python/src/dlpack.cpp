// Tensors as DLPack capsules: the versioned struct for who asks for it, the legacy one for everybody else.
//
// Data in the ring is complete before anyone sees it, so any stream of the consumer is satisfied. A legacy
// capsule cannot say "read-only"; it is given all the same, because JAX and TensorFlow take no other. PyTorch
// does not heed the flag, and consumers cannot be told apart: so whatever leaves here may be written to, and
// only this process sees it. Where the process cannot have that, it gets a copy.
// Deleters are plain C++: they may run on any thread, without the GIL, after the interpreter's end.
#include "dlpack.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "error.h"
#include "gil.h"
#include "tensor.h"

namespace nb = nanobind;

namespace sl::python {

namespace {

dlpack::DataType data_type(sl_dtype dtype) {
    switch (dtype) {
        case SL_FLOAT32:
            return {dlpack::kFloat, 32, 1};
        case SL_FLOAT16:
            return {dlpack::kFloat, 16, 1};
        case SL_BFLOAT16:
            return {dlpack::kBfloat, 16, 1};
        case SL_UINT8:
            return {dlpack::kUInt, 8, 1};
        case SL_INT64:
            return {dlpack::kInt, 64, 1};
        case SL_UINT64:
            return {dlpack::kUInt, 64, 1};
        default:
            return {dlpack::kInt, 32, 1};
    }
}

// What a capsule owns: the struct that the consumer reads, its shape, and the memory it points into.
template <class Struct>
struct Export {
    Struct managed{};
    std::int64_t shape[SL_MAX_DIMS];
    std::int64_t strides[SL_MAX_DIMS];
    std::shared_ptr<const void> memory;
};

template <class Struct>
Export<Struct>* make_export(const sl_tensor& view, const void* data, std::shared_ptr<const void> memory) {
    auto made = std::make_unique<Export<Struct>>();
    std::copy_n(view.shape, SL_MAX_DIMS, made->shape);
    std::copy_n(view.strides, SL_MAX_DIMS, made->strides);
    made->memory = std::move(memory);
    made->managed.tensor = {const_cast<void*>(data),
                            {dlpack::kCpu, 0},
                            view.ndim,
                            data_type(view.dtype),
                            made->shape,
                            made->strides,
                            0};
    made->managed.context = made.get();
    made->managed.deleter = [](Struct* managed) {
        if (managed != nullptr) delete static_cast<Export<Struct>*>(managed->context);
    };
    return made.release();
}

// A capsule that nobody consumed still has its first name and is deleted with what it holds.
template <class Struct>
void end_capsule(PyObject* capsule) {
    const char* name = PyCapsule_GetName(capsule);
    if (name == nullptr || std::strncmp(name, "used_", 5) == 0) return;
    auto* managed = static_cast<Struct*>(PyCapsule_GetPointer(capsule, name));
    if (managed != nullptr) managed->deleter(managed);
}

template <class Struct>
nb::object make_capsule(Export<Struct>* made, const char* name) {
    PyObject* capsule = PyCapsule_New(&made->managed, name, &end_capsule<Struct>);
    if (capsule == nullptr) {
        delete made;
        throw nb::python_error();
    }
    return nb::steal(capsule);
}

std::shared_ptr<void> copy_bytes(const sl_tensor& view) {
    std::shared_ptr<void> copy = make_block(view.bytes);
    ReleasedGil released;
    std::memcpy(copy.get(), view.data, view.bytes);
    return copy;
}

}  // namespace

nb::object Tensor::dlpack(nb::handle, std::optional<std::pair<int, int>> max_version,
                          std::optional<std::pair<int, int>> device, std::optional<bool> copy) const {
    if (device && *device != std::pair<int, int>(dlpack::kCpu, 0)) {
        PyErr_SetString(PyExc_BufferError, "this tensor is in host memory: dl_device must be (1, 0)");
        throw nb::python_error();
    }
    const void* data = view_.data;
    std::shared_ptr<const void> holder = memory_;
    bool copied = copy.value_or(false) || !memory_->allow_writes();
    if (copied && copy == false) {
        PyErr_SetString(PyExc_BufferError, "this process can have the tensor as a copy only");
        throw nb::python_error();
    }
    if (copied) {
        holder = copy_bytes(view_);
        data = holder.get();
    }
    if (!max_version || max_version->first < 1)
        return make_capsule(make_export<dlpack::Managed>(view_, data, std::move(holder)), "dltensor");

    auto* made = make_export<dlpack::Versioned>(view_, data, std::move(holder));
    made->managed.major = dlpack::kMajor;
    made->managed.minor = dlpack::kMinor;
    if (copied) made->managed.flags |= dlpack::kIsCopied;
    if (!copied && read_only()) made->managed.flags |= dlpack::kReadOnly;
    return make_capsule(made, "dltensor_versioned");
}

}  // namespace sl::python
