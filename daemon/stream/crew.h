// Crews: who does the jobs of which stream.
//
// A crew is a pool of workers with a scheduler of its own. The native crew are the daemon's worker processes;
// the others are the guests of one client's loader each, named by a number that the client has drawn. A
// stream belongs to one crew, and its jobs run nowhere else. A guest crew is there from its first guest or
// stream to its last, and all its guests and streams are of one user: it writes into nobody else's memory.
// Once the last client that has opened a stream for it is gone, its guests are hung up on. Owned by the
// conductor, on its thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "daemon/pool/worker_pool.h"
#include "daemon/schedule/scheduler.h"

namespace sl {

// Whose stream it is: a client's session, and its user.
struct Owner {
    std::uint64_t session = 0;
    uid_t uid = 0;
    std::uint64_t most_bytes = 0;  // that the user may have reserved; 0: no limit
};

struct Crew {
    std::uint64_t number = 0;  // 0: the native crew
    uid_t uid = 0;
    Scheduler scheduler;
    std::unique_ptr<WorkerPool> pool;
    std::uint32_t streams = 0;       // that are not gone
    std::set<std::uint64_t> owners;  // sessions that have opened one, and still are
    bool looks_again = false;        // a timer runs

    Crew(std::uint64_t its_number, uid_t its_uid, std::uint32_t workers, std::uint32_t cores)
        : number(its_number), uid(its_uid), scheduler(workers, cores) {}
    [[nodiscard]] bool is_native() const { return number == 0; }
    [[nodiscard]] std::uint32_t workers() const { return pool->count(); }
};

class Crews {
  public:
    using Events = std::function<WorkerPoolEvents(Crew&)>;
    // `events`: what a crew's pool tells the conductor. The native pool is the conductor's to make.
    Crews(EventLoop& loop, std::uint32_t workers, std::uint32_t cores, Events events);

    [[nodiscard]] Crew& native() { return *crews_.at(0); }
    [[nodiscard]] const Crew& native() const { return *crews_.at(0); }
    // The native crew first.
    [[nodiscard]] const std::map<std::uint64_t, std::unique_ptr<Crew>>& all() const { return crews_; }
    // The crew that a stream or a guest of this user names; made if there is none. kDenied: it is another
    // user's; kBudget: there are too many.
    Result<Crew*> of(std::uint64_t number, uid_t uid);
    // Takes a guest in and answers it; on an error it may have been hung up on already.
    Result<void> attach(Guest& guest);
    void owner_gone(std::uint64_t session);
    // Ends guest crews that have neither guests nor streams.
    void sweep();
    // Every pool, for the end.
    void clear();

  private:
    EventLoop& loop_;
    const std::uint32_t workers_;  // of the native crew: what a crew that says nothing yet may have
    const std::uint32_t cores_;
    const Events events_;
    std::map<std::uint64_t, std::unique_ptr<Crew>> crews_;
};

}  // namespace sl
