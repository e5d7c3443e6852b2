#include "daemon/stream/kept_memory.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace sl {

namespace {

constexpr std::chrono::milliseconds kBetweenLooks{250};
constexpr std::uint64_t kLittle = 1 << 20;  // bytes: given back quicker than a thread is made

// What only the daemon has goes, and of what was lent as much as nobody keeps. The bytes that are left.
std::uint64_t give_back(KeptMemory::Memory& memory, std::vector<KeptSegment>& kept) {
    std::uint64_t kept_bytes = 0;
    memory.own.clear();
    for (Segment& segment : memory.lent) {
        const std::uint64_t bytes = segment.size();
        auto left = KeptSegment::of(std::move(segment));
        if (!left) {
            spdlog::warn("shared memory that a client may keep is not counted: {}", left.error().message);
        } else if (left->is_kept()) {
            kept.push_back(std::move(*left));
            kept_bytes += bytes;
        }
    }
    memory.lent.clear();
    return kept_bytes;
}

}  // namespace

KeptMemory::~KeptMemory() {
    if (next_look_) loop_.cancel(*next_look_);
}

void KeptMemory::give_up(uid_t uid, Memory memory) {
    auto entry = std::make_shared<Entry>();
    entry->uid = uid;
    entry->memory = std::move(memory);
    for (const auto* segments : {&entry->memory.lent, &entry->memory.own}) {
        for (const Segment& segment : *segments)
            entry->held += segment.size();
    }
    start(entry, [raw = entry.get()] { raw->held = give_back(raw->memory, raw->kept); });
}

void KeptMemory::start(const Kept& entry, std::function<void()> work) {
    entry->ticket = ++tickets_;
    under_way_.push_back(entry);
    in_background(entry, std::move(work));
}

void KeptMemory::in_background(const Kept& entry, std::function<void()> work) {
    if (entry->held < kLittle) {
        work();
        return came_back(entry);
    }
    background_.run(entry->uid, std::move(work), [this, entry, alive = std::weak_ptr(alive_)] {
        if (!alive.expired()) came_back(entry);
    });
}

void KeptMemory::came_back(const Kept& entry) {
    // Its client may have let go since the look, as one that ends does bit by bit. Who waits, waits for that
    // too.
    if (!entry->kept.empty() && std::ranges::none_of(entry->kept, &KeptSegment::is_kept))
        return in_background(entry, [raw = entry.get()] { raw->kept.clear(); });
    std::erase(under_way_, entry);
    if (entry->kept.empty()) {
        entry->memory.reservation = {};
    } else {
        entry->memory.reservation.shrink(entry->held);
        entry->memory.reservation.leave_total();
        kept_.push_back(entry);
        look_again();
    }
    std::list<Waiter> ready;
    while (!waiters_.empty() && (under_way_.empty() || waiters_.front().ticket < under_way_.front()->ticket))
        ready.splice(ready.end(), waiters_, waiters_.begin());
    for (Waiter& waiter : ready)
        waiter.then();
}

void KeptMemory::look() {
    std::list<Kept> free;
    for (auto entry = kept_.begin(); entry != kept_.end();) {
        const auto next = std::next(entry);
        if (std::ranges::none_of((*entry)->kept, &KeptSegment::is_kept))
            free.splice(free.end(), kept_, entry);
        entry = next;
    }
    for (const Kept& entry : free)
        start(entry, [raw = entry.get()] { raw->kept.clear(); });
    look_again();
}

void KeptMemory::look_again() {
    if (kept_.empty() || next_look_) return;
    next_look_ = loop_.after(kBetweenLooks, [this] {
        next_look_.reset();
        look();
    });
}

KeptMemory::Sum KeptMemory::sum(std::optional<uid_t> uid) const {
    Sum sum;
    for (const Kept& entry : kept_) {
        if (uid && entry->uid != *uid) continue;
        ++sum.count;
        sum.bytes += entry->held;
    }
    return sum;
}

void KeptMemory::settle(std::function<void()> then) {
    look();
    if (under_way_.empty()) return then();
    waiters_.push_back({tickets_, std::move(then)});
}

}  // namespace sl
