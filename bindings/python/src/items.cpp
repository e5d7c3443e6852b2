#include "items.h"

#include <cstring>
#include <string>

namespace nb = nanobind;

namespace sl::python {

namespace {

class Buffer {
  public:
    explicit Buffer(nb::handle object) {
        if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) != 0) {
            throw nb::python_error();
        }
    }
    ~Buffer() { PyBuffer_Release(&view_); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    // Whether it is a line of 8-byte elements of one of the struct module's codes.
    [[nodiscard]] bool holds(const char* codes) const {
        const char* format = view_.format == nullptr ? "B" : view_.format;
        if (std::strchr("@=<", *format) != nullptr) ++format;
        return view_.ndim == 1 && view_.itemsize == 8 && std::strlen(format) == 1 &&
               std::strchr(codes, *format) != nullptr;
    }
    template <class Value>
    [[nodiscard]] std::vector<Value> copy() const {
        std::vector<Value> values(static_cast<std::size_t>(view_.len) / sizeof(Value));
        if (!values.empty()) std::memcpy(values.data(), view_.buf, values.size() * sizeof(Value));
        return values;
    }

  private:
    Py_buffer view_{};
};

}  // namespace

std::shared_ptr<const Items> take_items(nb::handle items) {
    if (items.is_none()) return nullptr;
    if (!nb::isinstance<nb::tuple>(items) || nb::len(items) != 2) {
        throw nb::type_error("items is (index, hints or None)");
    }
    auto made = std::make_shared<Items>();
    Buffer index(items[0]);
    if (!index.holds("QL"))
        throw nb::type_error("the index of items is a buffer of uint64 (NumPy's, array('Q'))");
    made->index = index.copy<std::uint64_t>();
    nb::object given = items[1];
    if (given.is_none()) return made;
    Buffer hints(given);
    if (!hints.holds("d")) throw nb::type_error("the hints of items are a buffer of float64");
    made->hints = hints.copy<double>();
    if (made->hints.size() != made->index.size()) {
        throw nb::value_error(("there are " + std::to_string(made->index.size()) + " items and " +
                               std::to_string(made->hints.size()) + " hints")
                                  .c_str());
    }
    return made;
}

}  // namespace sl::python
