// The pool of worker processes: start, greet, give jobs, take completions, replace the dead.
//
// Owned by the conductor thread. A death is noticed through the pidfd; what the dead had finished counts, the
// job it was working on is reported lost with the signal, the ones behind it are reported lost without blame,
// and a new process takes its place at once. A worker that hangs on a job is killed after a while and counts
// as dead. Workers that die before they are given a job, and ones that cannot be started, are started again
// with a growing delay, for ever: what is missing (descriptors, memory, the program) may come back. After a
// few such deaths in a row, and when nobody is left, `failed` tells why, so that no stream waits in vain.
//
// The pool of a crew starts nobody: guests attach by themselves and are taken in (guests.cpp). One that dies
// or hangs up leaves its place to the next; how it died is not known, for it is nobody's child here. It may
// take as long as it wants, unless its stream has a limit.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "daemon/pool/event_loop.h"
#include "daemon/pool/worker.h"
#include "daemon/predict/predictor.h"

namespace sl {

struct LostJob {
    std::uint64_t tag = 0;
    bool suspect = false;    // it was being worked on when the worker died
    int signal = 0;          // 0: the worker exited by itself, or was a guest
    bool timed_out = false;  // the worker was killed since this job took too long
};

struct WorkerPoolEvents {
    std::function<void(const sl_shm_completion&, std::size_t worker)> completed;
    std::function<void(const sl_shm_completion&)>
        looked;  // a header job's answer; nothing, if its worker died
    std::function<void(const LostJob&)> lost;
    std::function<void()> capacity;            // a worker has become able to take jobs
    std::function<void(const Error&)> failed;  // workers cannot be started; told again as long as it lasts
};

// A process that asks to become one of a crew.
struct Guest {
    std::uint64_t crew = 0;
    std::uint32_t workers = 0;  // that the crew will have
    std::uint32_t request = 0;  // of its message
    pid_t pid = 0;
    uid_t uid = 0;
    UniqueFd socket;
    UniqueFd pidfd;
};

struct WorkerStatus {
    pid_t pid = 0;
    std::size_t held = 0;
    std::uint64_t completed = 0;
};

class WorkerPool {
  public:
    WorkerPool(EventLoop& loop, WorkerProgram program, std::uint32_t count, std::uint64_t boot_id,
               const Segment& input, WorkerPoolEvents events);
    // Of a crew; until its first guest says how many they will be, `count` is expected.
    WorkerPool(EventLoop& loop, std::uint32_t count, WorkerPoolEvents events);
    ~WorkerPool();
    WorkerPool(const WorkerPool&) = delete;
    WorkerPool& operator=(const WorkerPool&) = delete;

    Result<void> start();
    // Takes in a guest, and answers its request. On an error it may have been hung up on.
    Result<void> adopt(Guest& guest);
    // Hangs up on all guests.
    void dismiss();
    // The end of a pool that holds no decode: kills its workers and starts no other. They have left once
    // living() is 0; until then the pool must stay, but not the input segment.
    void retire();

    // Workers hear of streams bit by bit, each when it has room for the message; jobs may be given at once.
    // The segments of `about` must stay, its bytes are copied. `limit`: for a job at a guest, 0 for none.
    void add_stream(std::uint64_t stream, const Worker::About& about, std::chrono::milliseconds limit = {});
    // The stream has no job in the pool any more.
    void remove_stream(std::uint64_t stream);

    // Whether some worker can take a job now, and gives it one: the one that holds least. A second job waits
    // behind a light one only, so that nothing stands behind a sample known to be slow. A job of a stream
    // that the worker has not mapped yet waits here until it has.
    [[nodiscard]] bool has_capacity() const;
    void give(const sl_shm_job& job, Lane lane);
    // How many jobs can be given now.
    [[nodiscard]] std::size_t places() const;

    // Whether some worker can look at a header now, and gives it such a job: before the decodes that are
    // given after it, behind light ones only, and in no decode's place. It is a favour: it wakes nobody while
    // all workers have enough to do, and a worker that dies over it blames nobody.
    [[nodiscard]] bool can_look() const;
    void give_header(const sl_shm_job& job);

    // Takes all completions there are; true if there were any.
    bool reap();
    // Wakes workers that were given jobs.
    void flush();
    void set_sleeping(bool sleeping);

    [[nodiscard]] std::uint32_t count() const { return count_; }
    [[nodiscard]] std::size_t living() const;  // worker processes that run
    [[nodiscard]] bool busy() const;           // some worker holds a job
    // Why nobody lives; nullptr if somebody does, or is about to.
    [[nodiscard]] const Error* trouble() const;
    [[nodiscard]] std::uint64_t deaths() const { return deaths_; }
    [[nodiscard]] std::vector<WorkerStatus> status() const;
    // CPU time of the living and of the dead.
    [[nodiscard]] double cpu_seconds() const;

  private:
    // A place for a worker, with what the pool knows of the process that has it now.
    struct Entry {
        std::unique_ptr<Worker> worker;                 // null while a replacement waits to be started
        std::map<std::uint64_t, Lane> lanes;            // of the decodes it has, waiting ones included
        std::map<std::uint64_t, std::uint32_t> limits;  // of those that have one, in ticks
        std::uint32_t headers = 0;                      // header jobs it has
        std::uint64_t decodes = 0;                      // that it has answered
        std::deque<sl_shm_job> waiting;                 // jobs of streams that it has not mapped
        std::deque<std::uint64_t> to_announce;
        std::set<std::uint64_t> announced;     // MAPPED has not come yet
        std::deque<std::uint64_t> to_forget;   // its socket was full
        std::uint32_t ticks = 0;               // since it last did something, while something was to be done
        std::optional<std::uint64_t> overdue;  // the job for which it was killed
        bool at_fault = false;                 // killed by the pool for what it did
        std::string complaint;                 // why it cannot work, in its own words
        EventLoop::TimerId restart = 0;
    };
    struct StreamEntry {
        std::vector<std::byte> about;
        const Segment* rows = nullptr;
        const Segment* samples = nullptr;
        std::uint64_t max_pixels = 0;
        std::chrono::milliseconds limit{};
    };

    // worker_pool.cpp: life and death
    Result<void> start_worker(std::size_t index);
    Result<void> watch(std::size_t index);
    void restart(std::size_t index, EventLoop::Clock::duration delay);
    void on_death(std::size_t index);
    void report_lost(Entry& entry, int signal);
    void leave_loop(Entry& entry);
    void kill(Entry& entry, const std::string& why);
    void tell(Error error);
    void tick();
    void look_for_hang(Entry& entry);
    void look_for_threads(Entry& entry);

    // guests.cpp: those that come and go by themselves
    std::size_t free_place();
    void on_guest_gone(std::size_t index);
    void look_for_slow_guest(Entry& entry);
    void set_tick();

    // worker_jobs.cpp: messages, streams and jobs
    void on_message(std::size_t index);
    void on_hello(Entry& entry);
    void welcome(Entry& entry);
    void on_mapped(Entry& entry, std::uint64_t stream);
    void send_news(Entry& entry);
    bool reap_one(Entry& entry);
    [[nodiscard]] static bool only_light(const Entry& entry);
    [[nodiscard]] static bool can_take(const Entry& entry);
    [[nodiscard]] static bool can_look(const Entry& entry);
    [[nodiscard]] std::size_t least_loaded(std::uint64_t stream) const;

    EventLoop& loop_;
    WorkerProgram program_;
    std::uint32_t count_;
    std::uint64_t boot_id_ = 0;
    const Segment* input_ = nullptr;
    const bool takes_guests_;
    bool retired_ = false;
    WorkerPoolEvents events_;
    std::uint32_t limit_ticks_ = 0;  // of a job; guests' jobs have their own
    std::chrono::milliseconds tick_length_{1000};
    EventLoop::TimerId tick_ = 0;
    std::vector<Entry> entries_;
    std::map<std::uint64_t, StreamEntry> streams_;
    std::unique_ptr<Packet> packet_;
    std::uint64_t deaths_ = 0;
    std::uint32_t early_deaths_ = 0;  // in a row, nothing having been done in between
    std::optional<Error> trouble_;    // why a worker could not be had; until one says HELLO
    double dead_cpu_seconds_ = 0;
};

}  // namespace sl
