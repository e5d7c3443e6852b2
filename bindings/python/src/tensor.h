// One tensor of a batch as Python and the frameworks see it: DLPack, the buffer protocol, NumPy's interface.
//
// Read-only where it lies in the ring, writable where it is a private copy. Every way out of here holds the
// batch's Memory, so a lease ends with the last view. Immutable; any thread that holds the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "memory.h"

namespace sl::python {

class Tensor {
  public:
    Tensor(std::shared_ptr<const Memory> memory, std::size_t index);

    [[nodiscard]] const sl_tensor& view() const { return view_; }
    [[nodiscard]] const std::shared_ptr<const Memory>& memory() const { return memory_; }
    [[nodiscard]] bool read_only() const { return !memory_->writable(); }
    [[nodiscard]] const char* dtype() const;
    [[nodiscard]] std::size_t item_bytes() const;
    [[nodiscard]] nanobind::tuple shape() const;
    [[nodiscard]] nanobind::tuple strides() const;

    // DLPack (dlpack.cpp).
    [[nodiscard]] nanobind::object dlpack(nanobind::handle stream,
                                          std::optional<std::pair<int, int>> max_version,
                                          std::optional<std::pair<int, int>> device,
                                          std::optional<bool> copy) const;

    // NumPy's __array_interface__, version 3.
    [[nodiscard]] nanobind::dict array_interface() const;

  private:
    std::shared_ptr<const Memory> memory_;
    sl_tensor view_;
};

void register_tensor(nanobind::module_& module);

}  // namespace sl::python
