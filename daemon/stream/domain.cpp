// See domain.h.
#include "daemon/stream/domain.h"

#include <utility>

namespace sl {

Result<std::shared_ptr<Domain>> Domain::create(uid_t uid, std::uint64_t input_bytes,
                                               const std::string& quarantine_file, MemoryBudget& budget) {
    auto memory = budget.reserve(input_bytes, "the input buffer of user " + std::to_string(uid));
    if (!memory) return std::unexpected(std::move(memory).error());
    auto input = InputArena::create(input_bytes);
    if (!input) return std::unexpected(std::move(input).error());
    auto domain = std::make_shared<Domain>();
    domain->uid = uid;
    domain->memory = std::move(*memory);
    domain->input = std::move(*input);
    domain->quarantine = Quarantine::open(quarantine_file);
    return domain;
}

}  // namespace sl
