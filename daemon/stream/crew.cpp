// See crew.h.
#include "daemon/stream/crew.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace sl {

namespace {

constexpr std::size_t kMostCrews = 64;         // native ones; and guests' of each user
constexpr std::size_t kMostGuestCrews = 1024;  // of all
constexpr std::uint32_t kMostGuests = 256;     // of a crew
constexpr std::chrono::seconds kLinger{5};

std::size_t count_of(const std::map<CrewKey, std::unique_ptr<Crew>>& crews, bool guests) {
    return static_cast<std::size_t>(
        std::ranges::count_if(crews, [&](const auto& entry) { return entry.first.guests == guests; }));
}

}  // namespace

Crews::Crews(EventLoop& loop, MemoryBudget& budget, CrewOptions options, Events events)
    : loop_(loop),
      budget_(budget),
      options_(std::move(options)),
      events_(std::move(events)),
      home_(::geteuid()) {}

Result<void> Crews::start_home() {
    auto made = native(home_);
    if (!made) return std::unexpected(std::move(made).error());
    return {};
}

// A user's domain is there once: one that late reads keep serves the user's next crew.
Result<std::shared_ptr<Domain>> Crews::domain_of(uid_t uid) {
    if (auto kept = domains_[uid].lock()) return kept;
    const std::string& file = uid == home_ ? options_.quarantine_file : std::string();
    auto made = Domain::create(uid, options_.input_bytes, file, budget_);
    if (!made && made.error().status == Status::kBudget && end_resting(nullptr))
        made = Domain::create(uid, options_.input_bytes, file, budget_);
    if (made) domains_[uid] = *made;
    std::erase_if(domains_, [](const auto& entry) { return entry.second.expired(); });
    return made;
}

std::uint32_t Crews::free_place() const {
    std::uint32_t place = 0;
    const auto taken = [&](const auto& entry) {
        return entry.second->is_native() && entry.second->place == place;
    };
    while (std::ranges::any_of(crews_, taken))
        ++place;
    return place;
}

Result<Crew*> Crews::native(uid_t user) {
    const uid_t uid = user == 0 ? home_ : user;
    const CrewKey key{false, uid};
    if (auto found = crews_.find(key); found != crews_.end()) return found->second.get();
    if (count_of(crews_, false) == kMostCrews && !end_resting(nullptr)) {
        return fail(Status::kBudget,
                    std::to_string(kMostCrews) + " users have streams already; each has workers of its own");
    }
    auto domain = domain_of(uid);
    if (!domain) return std::unexpected(std::move(domain).error());
    auto crew = std::make_unique<Crew>(key, uid, options_.workers, options_.cores);
    crew->place = free_place();
    crew->domain = std::move(*domain);
    crew->pool =
        std::make_unique<WorkerPool>(loop_, options_.worker_program, options_.workers, options_.boot_id,
                                     crew->domain->input.segment(), events_(*crew));
    if (auto started = crew->pool->start(); !started) return std::unexpected(std::move(started).error());
    spdlog::debug("{} workers for user {}", options_.workers, uid);
    rest(*crew);
    return (crews_[key] = std::move(crew)).get();
}

Result<Crew*> Crews::guests(std::uint64_t number, uid_t uid) {
    const CrewKey key{true, number};
    if (auto found = crews_.find(key); found != crews_.end()) {
        if (found->second->uid == uid) return found->second.get();
        return fail(Status::kDenied, "the crew belongs to another user");
    }
    const auto theirs = std::ranges::count_if(
        crews_, [&](const auto& entry) { return entry.first.guests && entry.second->uid == uid; });
    const bool too_many = static_cast<std::size_t>(theirs) >= kMostCrews;
    if (too_many || count_of(crews_, true) >= kMostGuestCrews) {
        return fail(Status::kBudget, "there are " + std::to_string(too_many ? kMostCrews : kMostGuestCrews) +
                                         " crews of guest workers already");
    }
    auto crew = std::make_unique<Crew>(key, uid, options_.workers, options_.cores);
    crew->pool = std::make_unique<WorkerPool>(loop_, options_.workers, events_(*crew));
    return (crews_[key] = std::move(crew)).get();
}

Result<void> Crews::attach(Guest& guest) {
    if (guest.crew == 0 || guest.workers == 0 || guest.workers > kMostGuests) {
        return fail(Status::kInvalidArgument,
                    "a crew has a number and 1 to " + std::to_string(kMostGuests) + " guest workers");
    }
    auto crew = guests(guest.crew, guest.uid);
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
    for (auto& [key, crew] : crews_) {
        if (crew->owners.erase(session) != 0 && crew->owners.empty() && !crew->is_native())
            crew->pool->dismiss();
    }
}

void Crews::rest(Crew& crew) {
    if (!crew.is_native() || is_home(crew)) return;
    loop_.cancel(crew.end_timer);
    crew.end_timer = loop_.after(kLinger, [this, &crew] {
        crew.end_timer = 0;
        if (crew.streams == 0) end(crew.key);
    });
}

// Its workers are killed and not waited for. The domain goes with the crew's place: nobody but workers who
// are about to die has it mapped.
void Crews::end(const CrewKey& key) {
    auto crew = std::move(crews_.extract(key).mapped());
    spdlog::debug("the workers of user {} leave", crew->uid);
    loop_.cancel(crew->end_timer);
    past_deaths_ += crew->pool->deaths();
    past_cpu_seconds_ += crew->pool->cpu_seconds();
    crew->pool->retire();
    crew->domain.reset();
    leaving_.push_back(std::move(crew));
}

bool Crews::end_resting(const Crew* but) {
    std::vector<CrewKey> resting;
    for (const auto& [key, crew] : crews_) {
        if (crew->is_native() && crew->streams == 0 && !is_home(*crew) && crew.get() != but)
            resting.push_back(key);
    }
    for (const CrewKey& key : resting)
        end(key);
    return !resting.empty();
}

void Crews::sweep() {
    std::erase_if(crews_, [](const auto& entry) {
        const Crew& crew = *entry.second;
        return !crew.is_native() && crew.streams == 0 && crew.pool->living() == 0;
    });
    std::erase_if(leaving_, [](const auto& crew) { return crew->pool->living() == 0; });
}

void Crews::clear() {
    leaving_.clear();
    for (auto& [key, crew] : crews_) {
        loop_.cancel(std::exchange(crew->end_timer, 0));
        crew->pool.reset();
    }
    for (auto& [key, crew] : crews_) {
        if (crew->domain) crew->domain->quarantine.reset();
    }
}

void Crews::abandon_domains() {
    for (auto& [uid, domain] : domains_)
        static_cast<void>(new std::shared_ptr<Domain>(domain.lock()));
}

Crews::Input Crews::input() const {
    Input sum;
    for (const auto& [uid, kept] : domains_) {
        if (auto domain = kept.lock()) {
            sum.capacity += domain->input.capacity();
            sum.used += domain->input.used();
        }
    }
    return sum;
}

std::uint64_t Crews::worker_deaths() const {
    std::uint64_t sum = past_deaths_;
    for (const auto& [key, crew] : crews_)
        sum += crew->is_native() ? crew->pool->deaths() : 0;
    return sum;
}

double Crews::cpu_seconds() const {
    double sum = past_cpu_seconds_;
    for (const auto& [key, crew] : crews_)
        sum += crew->is_native() ? crew->pool->cpu_seconds() : 0;
    return sum;
}

}  // namespace sl
