// Life and death of workers; see worker_jobs.cpp for what they do in between.
#include "daemon/pool/worker_pool.h"

#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>

namespace sl {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFailedStartDelay{1000};
// No picture that fits the pixel budget takes this long; a worker that does hangs.
constexpr std::uint32_t kJobLimitTicks = 60;
constexpr std::uint32_t kMaxEarlyDeaths = 5;

std::uint32_t job_limit_ticks() {
#ifdef SL_TEST_HOOKS
    if (const char* limit = std::getenv("SPEEDYLOADER_TEST_JOB_LIMIT_S")) {
        return static_cast<std::uint32_t>(std::strtoul(limit, nullptr, 10));
    }
#endif
    return kJobLimitTicks;
}

milliseconds delay_after(std::uint32_t early_deaths) {
    return std::min(milliseconds(2000), milliseconds(50) * (1U << std::min(early_deaths, 6U)));
}

double cpu_of(pid_t pid) {
    clockid_t clock{};
    timespec time{};
    if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return 0;
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// 0 if it cannot be told. The name, in brackets, may hold anything: what counts comes behind the last one.
std::uint32_t threads_of(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string line;
    std::getline(file, line);
    std::istringstream fields(line.substr(std::min(line.rfind(')') + 1, line.size())));
    constexpr int kBetween = 17;  // fields 3 to 19 of proc(5)
    std::string skipped;
    for (int i = 0; i < kBetween; ++i)
        fields >> skipped;
    std::uint32_t threads = 0;
    fields >> threads;
    return threads;
}

double seconds(const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

}  // namespace

WorkerPool::WorkerPool(EventLoop& loop, WorkerProgram program, std::uint32_t count, std::uint64_t boot_id,
                       const Segment& input, WorkerPoolEvents events)
    : loop_(loop),
      program_(std::move(program)),
      count_(count),
      boot_id_(boot_id),
      input_(&input),
      takes_guests_(false),
      events_(std::move(events)),
      limit_ticks_(job_limit_ticks()),
      entries_(count),
      packet_(std::make_unique<Packet>()) {}

WorkerPool::~WorkerPool() {
    loop_.cancel(tick_);
    for (Entry& entry : entries_) {
        loop_.cancel(entry.restart);
        if (!entry.worker) continue;
        leave_loop(entry);
        if (!takes_guests_) entry.worker->end();
    }
}

Result<void> WorkerPool::start() {
    tick_ = loop_.after(tick_length_, [this] { tick(); });
    for (std::size_t i = 0; i < entries_.size(); ++i) {
        if (auto started = start_worker(i); !started) return started;
    }
    return {};
}

Result<void> WorkerPool::start_worker(std::size_t index) {
    auto worker = Worker::start(program_);
    if (!worker) return std::unexpected(std::move(worker).error());
    Entry& entry = entries_[index];
    entry = Entry{};
    entry.worker = std::make_unique<Worker>(std::move(*worker));
    auto added = watch(index);
    if (!added) {
        leave_loop(entry);
        entry.worker->end();
        entry.worker.reset();
    }
    return added;
}

Result<void> WorkerPool::watch(std::size_t index) {
    Entry& entry = entries_[index];
    auto added = loop_.add(entry.worker->pidfd(), [this, index](std::uint32_t) { on_death(index); });
    if (added) added = loop_.add(entry.worker->socket(), [this, index](std::uint32_t) { on_message(index); });
    if (added) {
        // Only ends the wait; the conductor reaps every ring before it sleeps again.
        added = loop_.add(
            entry.worker->wake_fd(), [](std::uint32_t) {}, EventLoop::Trigger::kEdge);
    }
    return added;
}

void WorkerPool::retire() {
    retired_ = true;
    input_ = nullptr;
    loop_.cancel(tick_);
    for (Entry& entry : entries_) {
        loop_.cancel(entry.restart);
        if (!entry.worker) continue;
        loop_.remove(entry.worker->socket());  // no message is answered any more
        loop_.remove(entry.worker->wake_fd());
        entry.worker->kill();
    }
}

void WorkerPool::restart(std::size_t index, EventLoop::Clock::duration delay) {
    entries_[index].restart = loop_.after(delay, [this, index] {
        auto started = start_worker(index);
        if (started) return;
        if (living() == 0) {
            tell(std::move(started).error());
        } else {
            spdlog::warn("{}; trying again", started.error().message);
        }
        restart(index, kFailedStartDelay);
    });
}

void WorkerPool::on_death(std::size_t index) {
    Entry& entry = entries_[index];
    if (!entry.worker) return;
    if (takes_guests_) return on_guest_gone(index);
    Worker& worker = *entry.worker;
    int status = 0;
    rusage usage{};
    pid_t waited = ::wait4(worker.pid(), &status, WNOHANG, &usage);
    if (waited == 0) return;  // not yet; an error means that somebody else took its status: it is dead
    dead_cpu_seconds_ += seconds(usage.ru_utime) + seconds(usage.ru_stime);
    if (retired_) {
        leave_loop(entry);
        report_lost(entry, 0);
        entry.worker.reset();
        return;
    }
    ++deaths_;
    int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    spdlog::warn("worker {} died ({} {}) after {} samples; starting another", worker.pid(),
                 signal != 0 ? "signal" : "exit status", signal != 0 ? signal : WEXITSTATUS(status),
                 entry.decodes);
    while (reap_one(entry)) {
    }
    // A worker that held a job died of the sample, and one that somebody else killed did not die of itself.
    if (!entry.complaint.empty()) spdlog::warn("worker {}: {}", worker.pid(), entry.complaint);
    bool early = worker.completed() == 0 && worker.held().empty() && (signal != SIGKILL || entry.at_fault);
    const std::string complaint = entry.complaint;
    leave_loop(entry);
    report_lost(entry, signal);
    entry.worker.reset();
    if (!early) return restart(index, milliseconds(0));
    if (++early_deaths_ > kMaxEarlyDeaths) {
        tell({Status::kInternal,
              "worker processes (" + program_.path + ") die as soon as they start" +
                  (complaint.empty() ? complaint : ": " + complaint),
              0});
    }
    restart(index, delay_after(early_deaths_));
}

void WorkerPool::report_lost(Entry& entry, int signal) {
    std::vector<LostJob> lost;
    std::vector<std::uint64_t> unseen;
    for (std::uint64_t tag : entry.worker->held()) {
        const bool suspect = lost.empty() && unseen.empty();
        if (entry.lanes.contains(tag)) {
            lost.push_back({tag, suspect, signal, entry.overdue == tag});
        } else {
            unseen.push_back(tag);
        }
    }
    for (const sl_shm_job& job : entry.waiting)
        lost.push_back({job.tag, false, signal, false});
    entry.waiting.clear();
    entry.lanes.clear();
    entry.headers = 0;
    entry.limits.clear();
    for (const LostJob& job : lost)
        events_.lost(job);
    for (std::uint64_t tag : unseen) {
        sl_shm_completion nothing{};
        nothing.tag = tag;
        events_.looked(nothing);
    }
}

void WorkerPool::leave_loop(Entry& entry) {
    loop_.remove(entry.worker->pidfd());
    loop_.remove(entry.worker->socket());
    loop_.remove(entry.worker->wake_fd());
}

void WorkerPool::kill(Entry& entry, const std::string& why) {
    spdlog::warn("worker {} {}: killed", entry.worker->pid(), why);
    entry.at_fault = true;
    entry.worker->kill();
}

void WorkerPool::tell(Error error) {
    trouble_ = std::move(error);
    events_.failed(*trouble_);
}

void WorkerPool::tick() {
    tick_ = loop_.after(tick_length_, [this] { tick(); });
    for (Entry& entry : entries_) {
        if (!entry.worker) continue;
        send_news(entry);  // its socket may have been full, or we out of something
        if (takes_guests_) {
            look_for_slow_guest(entry);
        } else {
            look_for_hang(entry);
            look_for_threads(entry);
        }
    }
}

// Counts ticks rather than time: while the daemon is stopped, or its machine asleep, no worker is to blame.
void WorkerPool::look_for_hang(Entry& entry) {
    bool must_do_something = !entry.lanes.empty() || entry.headers > 0 || !entry.worker->greeted();
    if (!must_do_something || ++entry.ticks <= limit_ticks_) return;
    entry.ticks = 0;
    if (!entry.worker->held().empty()) entry.overdue = entry.worker->held().front();
    kill(entry, "has done nothing for " + std::to_string(limit_ticks_) + " s");
}

// Codecs start a few. One that has been taken over could start so many that nobody else of the service can.
void WorkerPool::look_for_threads(Entry& entry) {
    constexpr std::uint32_t kMost = 64;
    if (entry.at_fault) return;
    const std::uint32_t threads = threads_of(entry.worker->pid());
    if (threads > kMost) kill(entry, "runs " + std::to_string(threads) + " threads");
}

std::size_t WorkerPool::living() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(entries_, [](const Entry& entry) { return entry.worker != nullptr; }));
}

const Error* WorkerPool::trouble() const {
    return trouble_ && living() == 0 ? &*trouble_ : nullptr;
}

std::vector<WorkerStatus> WorkerPool::status() const {
    std::vector<WorkerStatus> all;
    for (const Entry& entry : entries_) {
        if (!entry.worker) continue;
        all.push_back({entry.worker->pid(), entry.lanes.size(), entry.decodes});
    }
    return all;
}

double WorkerPool::cpu_seconds() const {
    double sum = dead_cpu_seconds_;
    for (const Entry& entry : entries_) {
        if (entry.worker) sum += cpu_of(entry.worker->pid());
    }
    return sum;
}

}  // namespace sl
