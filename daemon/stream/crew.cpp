#include "daemon/stream/crew.h"

#include <spdlog/spdlog.h>

namespace sl {

namespace {

constexpr std::size_t kMostCrews = 64;
constexpr std::uint32_t kMostGuests = 256;  // of a crew

}  // namespace

Crews::Crews(EventLoop& loop, std::uint32_t workers, std::uint32_t cores, Events events)
    : loop_(loop), workers_(workers), cores_(cores), events_(std::move(events)) {
    crews_[0] = std::make_unique<Crew>(0, 0, workers, cores);
}

Result<Crew*> Crews::of(std::uint64_t number, uid_t uid) {
    if (number == 0) return &native();
    auto found = crews_.find(number);
    if (found != crews_.end()) {
        if (found->second->uid == uid) return found->second.get();
        return fail(Status::kDenied, "the crew belongs to another user");
    }
    if (crews_.size() > kMostCrews) {
        return fail(Status::kBudget,
                    "there are " + std::to_string(kMostCrews) + " crews of guest workers already");
    }
    auto crew = std::make_unique<Crew>(number, uid, workers_, cores_);
    crew->pool = std::make_unique<WorkerPool>(loop_, workers_, events_(*crew));
    return (crews_[number] = std::move(crew)).get();
}

Result<void> Crews::attach(Guest& guest) {
    if (guest.crew == 0 || guest.workers == 0 || guest.workers > kMostGuests) {
        return fail(Status::kInvalidArgument,
                    "a crew has a number and 1 to " + std::to_string(kMostGuests) + " guest workers");
    }
    auto crew = of(guest.crew, guest.uid);
    if (!crew) return std::unexpected(std::move(crew).error());
    WorkerPool& pool = *(*crew)->pool;
    if (pool.living() == kMostGuests) {
        return fail(Status::kBudget,
                    "the crew has " + std::to_string(kMostGuests) + " guest workers already");
    }
    auto adopted = pool.adopt(guest);
    if (adopted) {
        (*crew)->scheduler.set_workers(pool.count());
        spdlog::debug("guest {} of crew {:016x}", guest.pid, guest.crew);
    }
    return adopted;
}

void Crews::owner_gone(std::uint64_t session) {
    for (auto& [number, crew] : crews_) {
        if (crew->owners.erase(session) != 0 && crew->owners.empty() && !crew->is_native())
            crew->pool->dismiss();
    }
}

void Crews::sweep() {
    std::erase_if(crews_, [](const auto& entry) {
        const Crew& crew = *entry.second;
        return !crew.is_native() && crew.streams == 0 && crew.pool->living() == 0;
    });
}

void Crews::clear() {
    for (auto& [number, crew] : crews_)
        crew->pool.reset();
}

}  // namespace sl
