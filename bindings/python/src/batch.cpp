#include "batch.h"

#include <nanobind/stl/string.h>

#include <algorithm>

#include "error.h"
#include "gil.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sl::python {

Tensor Batch::tensor(const std::string& name) const {
    const auto& tensors = memory_->tensors();
    auto found = std::ranges::find(tensors, name, &TensorView::name);
    if (found != tensors.end()) return {memory_, static_cast<std::size_t>(found - tensors.begin())};
    std::string message = "no tensor '" + name + "'; there are:";
    for (const TensorView& view : tensors)
        message += " " + view.name;
    throw nb::key_error(message.c_str());
}

nb::tuple Batch::names() const {
    nb::list names;
    for (const TensorView& view : memory_->tensors())
        names.append(view.name);
    return nb::tuple(names);
}

Batch Batch::copy() const {
    ReleasedGil released;
    return Batch(Memory::copied(*memory_));
}

nb::dict Batch::sample(std::int64_t row) const {
    if (row < 0 || row >= memory_->info().count) {
        throw nb::index_error(
            ("row " + std::to_string(row) + " of " + std::to_string(memory_->info().count)).c_str());
    }
    constexpr const char* kLanes[] = {"light", "medium", "heavy"};
    sl_sample_info info = memory_->sample(static_cast<std::uint32_t>(row));
    nb::dict made;
    made["sample_id"] = info.sample_id;
    made["planned_id"] = info.planned_id;
    made["valid"] = info.valid != 0;
    made["lane"] = kLanes[std::min<std::uint32_t>(info.lane, 2)];
    made["predicted_us"] = info.predicted_us;
    made["actual_us"] = info.actual_us;
    return made;
}

void register_batch(nb::module_& module) {
    nb::class_<Batch>(module, "Batch",
                      "A lease on one batch, or a private copy of one. Ends with the last view of it.")
        .def_prop_ro("names", &Batch::names, "Names of the tensors.")
        .def("tensor", &Batch::tensor, "name"_a, "The tensor of that name. KeyError if there is none.")
        .def("copy", &Batch::copy, "The same batch in private, writable memory.")
        .def("sample", &Batch::sample, "row"_a,
             "What is known of a row: sample_id, planned_id, valid, lane, predicted_us, actual_us.")
        .def_prop_ro(
            "count", [](const Batch& self) { return self.memory().info().count; }, "Rows.")
        .def_prop_ro(
            "epoch", [](const Batch& self) { return self.memory().info().epoch; }, "Epoch, from 0.")
        .def_prop_ro(
            "index", [](const Batch& self) { return self.memory().info().batch; }, "Index in the epoch.")
        .def_prop_ro(
            "step", [](const Batch& self) { return self.memory().info().step; },
            "Batches before it, over all epochs.")
        .def_prop_ro(
            "copied", [](const Batch& self) { return self.memory().writable(); },
            "Whether it is a private copy and may be written.");
}

}  // namespace sl::python
