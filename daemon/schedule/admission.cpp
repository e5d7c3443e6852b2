#include "daemon/schedule/admission.h"

#include "daemon/schedule/scheduler.h"

namespace sl {

Admission::Head Admission::first(const Scheduler& scheduler, std::uint64_t stream, std::uint64_t due_step,
                                 std::uint32_t cap, const std::array<bool, kLanes>& full) const {
    Head chosen;
    double chosen_start = 0;
    bool chosen_late = false;
    for (Lane lane : {Lane::kLight, Lane::kMedium, Lane::kHeavy}) {
        const Runnable* head = waiting_.head(lane);
        if (head == nullptr || full[static_cast<std::size_t>(lane)]) continue;
        if (in_memory(lane) >= cap && head->step > due_step) continue;
        const double start = scheduler.latest_start(stream, lane, *head);
        const bool late = head->step < due_step;  // as in the scheduler: first, in plan order
        if (chosen.runnable != nullptr) {
            if (late != chosen_late ? chosen_late : late ? *chosen.runnable < *head : start >= chosen_start)
                continue;
        }
        chosen = {lane, head};
        chosen_start = start;
        chosen_late = late;
    }
    return chosen;
}

}  // namespace sl
