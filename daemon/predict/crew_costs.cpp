#include "daemon/predict/crew_costs.h"

#include <algorithm>
#include <utility>

namespace sl {

CrewCosts::~CrewCosts() {
    for (const Crew& crew : crews_)
        loop_.cancel(crew.forget);
}

std::shared_ptr<CostModel> CrewCosts::open(std::uint64_t crew, std::uint64_t items_end, double mean_hint) {
    auto found = std::ranges::find(crews_, crew, &Crew::number);
    if (found == crews_.end()) {
        crews_.push_back(
            {.number = crew, .model = std::make_shared<CostModel>(CostModel::Items{items_end, mean_hint})});
        found = std::prev(crews_.end());
    }
    loop_.cancel(std::exchange(found->forget, 0));
    ++found->streams;
    found->model->make_room(items_end);
    return found->model;
}

void CrewCosts::ended(const CostModel& model) {
    const auto found =
        std::ranges::find_if(crews_, [&](const Crew& crew) { return crew.model.get() == &model; });
    if (found == crews_.end() || --found->streams > 0) return;
    found->forget = loop_.after(keep_, [this, number = found->number] { forget(number); });
    crews_.splice(crews_.end(), crews_, found);
    const auto is_idle = [](const Crew& crew) { return crew.streams == 0; };
    if (static_cast<std::size_t>(std::ranges::count_if(crews_, is_idle)) <= kMostIdle) return;
    const auto oldest = std::ranges::find_if(crews_, is_idle);
    loop_.cancel(oldest->forget);
    crews_.erase(oldest);
}

void CrewCosts::forget(std::uint64_t number) {
    std::erase_if(crews_, [&](const Crew& crew) { return crew.number == number; });
}

}  // namespace sl
