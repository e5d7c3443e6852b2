// Guests of a crew: processes that attach by themselves, and go when they want.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "daemon/pool/worker_pool.h"

namespace sl {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTick{1000};
constexpr milliseconds kShortTick{100};  // while some stream has a limit

}  // namespace

WorkerPool::WorkerPool(EventLoop& loop, std::uint32_t count, WorkerPoolEvents events)
    : loop_(loop),
      count_(count),
      takes_guests_(true),
      events_(std::move(events)),
      packet_(std::make_unique<Packet>()) {
    tick_ = loop_.after(tick_length_, [this] { tick(); });
}

std::size_t WorkerPool::free_place() {
    auto free = std::ranges::find_if(entries_, [](const Entry& entry) { return !entry.worker; });
    if (free == entries_.end()) free = entries_.insert(free, Entry{});
    return static_cast<std::size_t>(free - entries_.begin());
}

Result<void> WorkerPool::adopt(Guest& guest) {
    auto worker = Worker::adopt(guest.socket, guest.pidfd, guest.pid);
    if (!worker) return std::unexpected(std::move(worker).error());
    if (auto equipped = worker->equip(guest.request, nullptr); !equipped) return equipped;
    const std::size_t index = free_place();
    Entry& entry = entries_[index];
    entry = Entry{};
    entry.worker = std::make_unique<Worker>(std::move(*worker));
    if (auto watched = watch(index); !watched) {
        leave_loop(entry);
        entry.worker.reset();
        return watched;
    }
    count_ = guest.workers;
    welcome(entry);
    return {};
}

void WorkerPool::dismiss() {
    for (std::size_t index = 0; index < entries_.size(); ++index)
        on_guest_gone(index);
}

// It has ended, or hung up, or is hung up on: then its socket, which is closed here, tells it so.
void WorkerPool::on_guest_gone(std::size_t index) {
    Entry& entry = entries_[index];
    if (!entry.worker) return;
    while (reap_one(entry)) {
    }
    if (!entry.worker->held().empty()) {
        ++deaths_;
        spdlog::warn("guest {} has gone in the middle of an item, after {}", entry.worker->pid(),
                     entry.worker->completed());
    }
    leave_loop(entry);
    report_lost(entry, 0);
    entry.worker.reset();
}

// An item's time counts from when its guest has answered the one before. In ticks, as for workers.
void WorkerPool::look_for_slow_guest(Entry& entry) {
    const auto& held = entry.worker->held();
    auto limit = held.empty() ? entry.limits.end() : entry.limits.find(held.front());
    if (limit == entry.limits.end() || ++entry.ticks <= limit->second || entry.at_fault) return;
    entry.overdue = held.front();
    kill(entry, "has been at an item for longer than its stream allows");
}

// Time limits are kept to a tenth of a second; where there are none, nobody needs to look so often.
void WorkerPool::set_tick() {
    if (!takes_guests_) return;
    const bool limits =
        std::ranges::any_of(streams_, [](const auto& stream) { return stream.second.limit.count() > 0; });
    const milliseconds wanted = limits ? kShortTick : kTick;
    if (wanted == tick_length_) return;
    tick_length_ = wanted;
    loop_.cancel(tick_);
    tick_ = loop_.after(tick_length_, [this] { tick(); });
}

}  // namespace sl
