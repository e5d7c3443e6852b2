// A batch: names to tensors, which batch it is, and what is known of each row.
//
// Holds the batch's Memory like every tensor of it. Immutable; any thread that holds the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>

#include "memory.h"
#include "tensor.h"

namespace sl::python {

class Batch {
  public:
    explicit Batch(std::shared_ptr<const Memory> memory) : memory_(std::move(memory)) {}

    [[nodiscard]] const Memory& memory() const { return *memory_; }
    // KeyError, with the names there are.
    [[nodiscard]] Tensor tensor(const std::string& name) const;
    [[nodiscard]] nanobind::tuple names() const;
    // The same in private memory.
    [[nodiscard]] Batch copy() const;
    // One dict a row. IndexError beyond the last.
    [[nodiscard]] nanobind::dict sample(std::int64_t row) const;

  private:
    std::shared_ptr<const Memory> memory_;
};

void register_batch(nanobind::module_& module);

}  // namespace sl::python
