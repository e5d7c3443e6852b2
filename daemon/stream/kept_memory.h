// Shared memory that the daemon has done with, until it is free.
//
// A client that has closed a stream may hold its descriptors or maps: an array that somebody still looks at,
// or a client that means harm. Until they go the memory is on its user's account, so that nobody gets more
// than the limits say by closing and opening. The daemon's budget is for what it makes: a program without
// limits that collects batches of many streams must not run out of it. Who keeps what is looked at when
// something is given up, when somebody asks, and four times a second while there is any. What nobody keeps
// goes back to the kernel in the background, which takes a while for much, and counts until it has. Owned by
// the conductor, on its thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/pool/background.h"
#include "daemon/stream/memory_budget.h"
#include "shm/kept_segment.h"

namespace sl {

class KeptMemory {
  public:
    KeptMemory(EventLoop& loop, Background& background) : loop_(loop), background_(background) {}
    ~KeptMemory();
    KeptMemory(const KeptMemory&) = delete;
    KeptMemory& operator=(const KeptMemory&) = delete;

    struct Memory {
        std::vector<Segment> lent;  // clients or guests have descriptors of them
        std::vector<Segment> own;
        MemoryBudget::Share reservation;  // shrinks to what is kept, on its user's account alone
    };
    void give_up(uid_t uid, Memory memory);

    struct Sum {
        std::size_t count = 0;  // what was given up at once counts as one
        std::uint64_t bytes = 0;
    };
    // What one user, or all, kept when it was last looked at.
    [[nodiscard]] Sum sum(std::optional<uid_t> uid = {}) const;
    // Calls back, perhaps at once, when all that nobody keeps now is free.
    void settle(std::function<void()> then);
    // Looks who keeps what.
    void look();

  private:
    struct Entry {
        uid_t uid = 0;
        std::uint64_t ticket = 0;  // of its last turn in the background
        std::uint64_t held = 0;    // bytes
        Memory memory;
        std::vector<KeptSegment> kept;
    };
    struct Waiter {
        std::uint64_t ticket = 0;  // the last that it waits for
        std::function<void()> then;
    };
    // A work that is under way shares its entry, and has it to itself.
    using Kept = std::shared_ptr<Entry>;

    void start(const Kept& entry, std::function<void()> work);
    void in_background(const Kept& entry, std::function<void()> work);
    void came_back(const Kept& entry);
    void look_again();

    EventLoop& loop_;
    Background& background_;
    std::list<Kept> kept_;
    std::list<Kept> under_way_;  // in the background; by ticket
    std::list<Waiter> waiters_;
    std::uint64_t tickets_ = 0;
    std::optional<EventLoop::TimerId> next_look_;
    std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);  // the background may outlive it
};

}  // namespace sl
