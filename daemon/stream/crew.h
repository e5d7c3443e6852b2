// Crews: who does the jobs of which stream.
//
// A crew is a pool of workers with a scheduler of its own. A native crew are worker processes of the daemon
// and works for one user, in that user's trust domain (domain.h); a user's first native stream starts it, and
// it ends some seconds after the last one, so that a job that opens its streams anew finds warm workers, or
// at once where another user needs the memory. The one of the daemon's own user, the home crew, starts with
// the daemon and stays; root, who may see what the daemon sees, is counted as that user. The other crews are
// the guests of one client's loader each, named by a number that the client has drawn. A stream belongs to
// one crew, and its jobs run nowhere else. A guest crew is there from its first guest or stream to its last,
// and all its guests and streams are of one user: it writes into nobody else's memory. Once the last client
// that has opened a stream for it is gone, its guests are hung up on. Owned by the conductor, on its thread.
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/pool/worker_pool.h"
#include "daemon/schedule/scheduler.h"
#include "daemon/stream/domain.h"

namespace sl {

// Whose stream it is: a client's session, and its user.
struct Owner {
    std::uint64_t session = 0;
    uid_t uid = 0;
    std::uint64_t most_bytes = 0;  // that the user may have reserved; 0: no limit
};

struct CrewKey {
    bool guests = false;
    std::uint64_t number = 0;  // a native crew's user
    auto operator<=>(const CrewKey&) const = default;
};

struct Crew {
    CrewKey key;
    uid_t uid = 0;
    std::uint32_t place = 0;  // of a native crew among those there are, the home crew's is 0
    Scheduler scheduler;
    std::shared_ptr<Domain> domain;  // of a native crew
    std::unique_ptr<WorkerPool> pool;
    std::uint32_t streams = 0;       // that are not gone
    std::set<std::uint64_t> owners;  // sessions that have opened one, and still are
    bool looks_again = false;        // a timer runs
    EventLoop::TimerId end_timer = 0;
    struct Decoded {  // since it began; times in nanoseconds, as StageTotals has them for all crews
        std::uint64_t samples = 0;
        std::uint64_t wall_ns = 0;
        std::uint64_t cpu_ns = 0;
    } decoded;

    Crew(CrewKey its_key, uid_t its_uid, std::uint32_t workers, std::uint32_t cores)
        : key(its_key), uid(its_uid), scheduler(workers, cores) {}
    [[nodiscard]] bool is_native() const { return !key.guests; }
    [[nodiscard]] std::uint32_t workers() const { return pool->count(); }
};

struct CrewOptions {
    WorkerProgram worker_program;
    std::uint32_t workers = 1;      // of each native crew
    std::uint32_t cores = 1;        // that they share
    std::uint64_t input_bytes = 0;  // of each domain
    std::string quarantine_file;    // of the home crew; other domains forget what they know at their end
    std::uint64_t boot_id = 0;
};

class Crews {
  public:
    using Events = std::function<WorkerPoolEvents(Crew&)>;
    // `events`: what a crew's pool tells the conductor.
    Crews(EventLoop& loop, MemoryBudget& budget, CrewOptions options, Events events);

    Result<void> start_home();
    [[nodiscard]] Crew& home() { return *crews_.at({false, home_}); }
    [[nodiscard]] bool is_home(const Crew& crew) const { return crew.is_native() && crew.uid == home_; }
    // The native crews first.
    [[nodiscard]] const std::map<CrewKey, std::unique_ptr<Crew>>& all() const { return crews_; }
    // The crew that decodes for this user, of root the home crew; made if there is none. kBudget: there is no
    // room for its input buffer, or there are too many; other errors: no worker can be started.
    Result<Crew*> native(uid_t uid);
    // The crew that a stream or a guest of this user names; made if there is none. kDenied: it is another
    // user's; kBudget: there are too many.
    Result<Crew*> guests(std::uint64_t number, uid_t uid);
    // Takes a guest in and answers it; on an error it may have been hung up on already.
    Result<void> attach(Guest& guest);
    void owner_gone(std::uint64_t session);
    // A native crew has no stream: it ends after a while, unless one comes or it is the home crew.
    void rest(Crew& crew);
    // Ends native crews that rest, but for one; false if there were none.
    bool end_resting(const Crew* but);
    // Ends guest crews that have neither guests nor streams, and forgets native ones whose last worker has
    // left.
    void sweep();
    // Every pool, for the end.
    void clear();
    // Keeps every domain for ever: reads that never returned may write into it.
    void abandon_domains();

    // Of all domains, also of those that only reads hold.
    struct Input {
        std::uint64_t capacity = 0;
        std::uint64_t used = 0;
    };
    [[nodiscard]] Input input() const;
    // Of native crews, those that have ended included.
    [[nodiscard]] std::uint64_t worker_deaths() const;
    [[nodiscard]] double cpu_seconds() const;

  private:
    Result<std::shared_ptr<Domain>> domain_of(uid_t uid);
    [[nodiscard]] std::uint32_t free_place() const;
    void end(const CrewKey& key);

    EventLoop& loop_;
    MemoryBudget& budget_;
    const CrewOptions options_;
    const Events events_;
    const uid_t home_;
    std::map<CrewKey, std::unique_ptr<Crew>> crews_;
    std::vector<std::unique_ptr<Crew>> leaving_;      // native crews whose workers have been killed
    std::map<uid_t, std::weak_ptr<Domain>> domains_;  // by user
    std::uint64_t past_deaths_ = 0;
    double past_cpu_seconds_ = 0;
};

}  // namespace sl
