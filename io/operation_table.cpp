// See operation_table.h.
#include "io/operation_table.h"

namespace sl {

std::uint32_t OperationTable::add() {
    if (free_.empty()) {
        free_.push_back(size());
        operations_.emplace_back();
    }
    std::uint32_t index = free_.back();
    free_.pop_back();
    std::uint32_t generation = operations_[index].generation;
    operations_[index] = Operation{};
    operations_[index].generation = generation;
    operations_[index].active = true;
    return index;
}

void OperationTable::release(std::uint32_t index) {
    operations_[index].active = false;
    ++operations_[index].generation;
    free_.push_back(index);
}

std::uint64_t OperationTable::tag_of(std::uint32_t index) const {
    return std::uint64_t{operations_[index].generation} << 32 | index;
}

Operation* OperationTable::find(std::uint64_t tag) {
    auto index = static_cast<std::uint32_t>(tag);
    if (tag == kNobody || index >= operations_.size()) return nullptr;
    Operation& operation = operations_[index];
    return operation.active && operation.generation == tag >> 32 ? &operation : nullptr;
}

}  // namespace sl
