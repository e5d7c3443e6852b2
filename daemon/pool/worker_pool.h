// The pool of worker processes: start, greet, give jobs, take completions, replace the dead.
//
// Owned by the conductor thread. A death is noticed through the pidfd; what the dead had finished counts, the
// job it was working on is reported lost with the signal, the ones behind it are reported lost without blame,
// and a new process takes its place at once. Workers that die before doing anything are started again with a
// growing delay; after a few such deaths in a row the pool says so instead of trying for ever.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/pool/event_loop.h"
#include "daemon/pool/worker.h"
#include "daemon/predict/predictor.h"

namespace sl {

struct LostJob {
    std::uint64_t tag = 0;
    bool suspect = false;  // it was being worked on when the worker died
    int signal = 0;        // 0: the worker exited by itself
};

struct WorkerPoolEvents {
    std::function<void(const sl_shm_completion&)> completed;
    std::function<void(const LostJob&)> lost;
    std::function<void()> capacity;            // a worker has become able to take jobs
    std::function<void(const Error&)> failed;  // workers cannot be started
};

struct WorkerStatus {
    pid_t pid = 0;
    std::size_t held = 0;
    std::uint64_t completed = 0;
};

class WorkerPool {
  public:
    WorkerPool(EventLoop& loop, std::string program, std::uint32_t count, std::uint64_t boot_id,
               const Segment& input, WorkerPoolEvents events);
    ~WorkerPool();
    WorkerPool(const WorkerPool&) = delete;
    WorkerPool& operator=(const WorkerPool&) = delete;

    Result<void> start();

    void add_stream(std::uint64_t stream, const Pipeline& pipeline, const Segment* samples);
    void remove_stream(std::uint64_t stream);

    // Whether some worker can take a job now, and gives it one: the one that holds least. A second job waits
    // behind a light one only, so that nothing stands behind a sample known to be slow.
    [[nodiscard]] bool has_capacity() const;
    void give(const sl_shm_job& job, Lane lane);

    // Takes all completions there are; true if there were any.
    bool reap();
    // Wakes workers that were given jobs.
    void flush();
    void set_sleeping(bool sleeping);

    [[nodiscard]] std::uint32_t count() const { return count_; }
    [[nodiscard]] std::uint64_t deaths() const { return deaths_; }
    [[nodiscard]] std::vector<WorkerStatus> status() const;
    // CPU time of the living and of the dead.
    [[nodiscard]] double cpu_seconds() const;

  private:
    struct Entry {
        std::unique_ptr<Worker> worker;  // null while a replacement waits to be started
        EventLoop::Clock::time_point started;
        std::map<std::uint64_t, Lane> lanes;  // of the jobs it holds
    };
    struct StreamEntry {
        Pipeline pipeline;
        const Segment* samples = nullptr;
    };

    Result<void> start_worker(std::size_t index);
    void on_message(std::size_t index);
    void on_death(std::size_t index);
    void report_lost(Entry& entry, int signal);
    bool reap_one(Entry& entry);
    [[nodiscard]] bool can_take(const Entry& entry) const;
    [[nodiscard]] std::size_t least_loaded() const;

    EventLoop& loop_;
    std::string program_;
    std::uint32_t count_;
    std::uint64_t boot_id_;
    const Segment& input_;
    WorkerPoolEvents events_;
    std::vector<Entry> entries_;
    std::map<std::uint64_t, StreamEntry> streams_;
    std::unique_ptr<Packet> packet_;
    std::uint64_t deaths_ = 0;
    std::uint32_t early_deaths_ = 0;
    double dead_cpu_seconds_ = 0;
    bool stopping_ = false;
};

}  // namespace sl
