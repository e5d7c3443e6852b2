#include "daemon/pool/worker_pool.h"

#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <ctime>

#include "shm/wake.h"

namespace sl {

namespace {

constexpr std::size_t kNobody = ~std::size_t{0};
constexpr std::size_t kJobsPerWorker =
    2;  // one running, one at hand so that the worker need not sleep between
constexpr std::uint32_t kMaxEarlyDeaths = 5;

double cpu_of(pid_t pid) {
    clockid_t clock{};
    timespec time{};
    if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return 0;
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double seconds(const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

}  // namespace

WorkerPool::WorkerPool(EventLoop& loop, std::string program, std::uint32_t count, std::uint64_t boot_id,
                       const Segment& input, WorkerPoolEvents events)
    : loop_(loop),
      program_(std::move(program)),
      count_(count),
      boot_id_(boot_id),
      input_(input),
      events_(std::move(events)),
      entries_(count),
      packet_(std::make_unique<Packet>()) {}

WorkerPool::~WorkerPool() {
    stopping_ = true;
    for (Entry& entry : entries_) {
        if (!entry.worker) continue;
        loop_.remove(entry.worker->pidfd());
        loop_.remove(entry.worker->socket());
        loop_.remove(entry.worker->wake_fd());
        entry.worker->kill();
        ::waitpid(entry.worker->pid(), nullptr, 0);
    }
}

Result<void> WorkerPool::start() {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
        if (auto started = start_worker(i); !started) return started;
    }
    return {};
}

Result<void> WorkerPool::start_worker(std::size_t index) {
    auto worker = Worker::start(program_);
    if (!worker) return std::unexpected(std::move(worker).error());
    Entry& entry = entries_[index];
    entry.worker = std::make_unique<Worker>(std::move(*worker));
    entry.started = EventLoop::Clock::now();
    entry.lanes.clear();
    auto added = loop_.add(entry.worker->pidfd(), [this, index](std::uint32_t) { on_death(index); });
    if (added) added = loop_.add(entry.worker->socket(), [this, index](std::uint32_t) { on_message(index); });
    if (added) {
        added = loop_.add(entry.worker->wake_fd(), [this, index](std::uint32_t) {
            // Only ends the wait; the conductor reaps every ring before it sleeps again.
            if (entries_[index].worker) quiet(entries_[index].worker->wake_fd());
        });
    }
    return added;
}

void WorkerPool::on_message(std::size_t index) {
    Worker* worker = entries_[index].worker.get();
    if (worker == nullptr) return;
    std::string why;
    switch (receive(worker->socket(), *packet_, why)) {
        case Received::kNothing:
            return;
        case Received::kClosed:
            loop_.remove(worker->socket());  // its pidfd tells the rest
            return;
        case Received::kMalformed:
            spdlog::warn("worker {} sent {}: killed", worker->pid(), why);
            worker->kill();
            return;
        case Received::kMessage:
            break;
    }
    if (packet_->head().type == SL_MSG_HELLO) {
        auto greeted = worker->greet(packet_->head().request, boot_id_, input_);
        for (auto it = streams_.begin(); greeted && it != streams_.end(); ++it) {
            greeted = worker->announce(it->first, it->second.pipeline, *it->second.samples);
        }
        if (!greeted) spdlog::warn("worker {}: {}", worker->pid(), greeted.error().message);
    } else if (packet_->head().type == SL_MSG_MAPPED) {
        if (const auto* message = packet_->as<sl_msg_stream>();
            message && streams_.contains(message->stream_id)) {
            worker->mapped(message->stream_id);
            events_.capacity();
        }
    } else {
        spdlog::warn("worker {} sent an unknown message {}: killed", worker->pid(), packet_->head().type);
        worker->kill();
    }
}

void WorkerPool::on_death(std::size_t index) {
    Entry& entry = entries_[index];
    if (!entry.worker) return;
    int status = 0;
    rusage usage{};
    if (::wait4(entry.worker->pid(), &status, WNOHANG, &usage) != entry.worker->pid()) return;
    dead_cpu_seconds_ += seconds(usage.ru_utime) + seconds(usage.ru_stime);
    ++deaths_;
    int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    spdlog::warn("worker {} died ({} {}) after {} samples; starting another", entry.worker->pid(),
                 signal != 0 ? "signal" : "exit status", signal != 0 ? signal : WEXITSTATUS(status),
                 entry.worker->completed());
    while (reap_one(entry)) {
    }
    bool early = entry.worker->completed() == 0 && signal != SIGKILL;
    early_deaths_ = early ? early_deaths_ + 1 : 0;
    loop_.remove(entry.worker->pidfd());
    loop_.remove(entry.worker->socket());
    loop_.remove(entry.worker->wake_fd());
    report_lost(entry, signal);
    entry.worker.reset();
    if (early_deaths_ > kMaxEarlyDeaths) {
        events_.failed(
            {Status::kInternal, "worker processes (" + program_ + ") die as soon as they start", 0});
        return;
    }
    auto delay = std::chrono::milliseconds(early_deaths_ == 0 ? 0 : 50 << early_deaths_);
    loop_.after(delay, [this, index] {
        if (auto started = start_worker(index); !started) events_.failed(started.error());
    });
}

void WorkerPool::report_lost(Entry& entry, int signal) {
    std::vector<std::uint64_t> lost(entry.worker->held().begin(), entry.worker->held().end());
    entry.lanes.clear();
    for (std::size_t i = 0; i < lost.size(); ++i)
        events_.lost({lost[i], i == 0, signal});
}

void WorkerPool::add_stream(std::uint64_t stream, const Pipeline& pipeline, const Segment* samples) {
    streams_[stream] = {pipeline, samples};
    for (Entry& entry : entries_) {
        if (!entry.worker || !entry.worker->greeted()) continue;
        if (auto sent = entry.worker->announce(stream, pipeline, *samples); !sent) {
            spdlog::warn("worker {}: {}: killed", entry.worker->pid(), sent.error().message);
            entry.worker->kill();
        }
    }
}

void WorkerPool::remove_stream(std::uint64_t stream) {
    streams_.erase(stream);
    for (Entry& entry : entries_) {
        if (entry.worker && entry.worker->greeted()) entry.worker->forget(stream);
    }
}

bool WorkerPool::can_take(const Entry& entry) const {
    if (!entry.worker || !entry.worker->greeted() || entry.lanes.size() >= kJobsPerWorker) return false;
    bool only_light =
        std::ranges::all_of(entry.lanes, [](const auto& job) { return job.second == Lane::kLight; });
    return only_light && std::ranges::all_of(streams_, [&](const auto& stream) {
               return entry.worker->can_take(stream.first);
           });
}

std::size_t WorkerPool::least_loaded() const {
    std::size_t best = kNobody;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
        if (!can_take(entries_[i])) continue;
        if (best == kNobody || entries_[i].lanes.size() < entries_[best].lanes.size()) best = i;
    }
    return best;
}

bool WorkerPool::has_capacity() const {
    return least_loaded() != kNobody;
}

void WorkerPool::give(const sl_shm_job& job, Lane lane) {
    Entry& entry = entries_[least_loaded()];
    entry.worker->push(job);
    entry.lanes[job.tag] = lane;
}

bool WorkerPool::reap_one(Entry& entry) {
    sl_shm_completion completion;
    if (!entry.worker->pop(completion)) {
        if (entry.worker->broken()) {
            spdlog::warn("worker {} garbled its ring: killed", entry.worker->pid());
            entry.worker->kill();
        }
        return false;
    }
    entry.lanes.erase(completion.tag);
    events_.completed(completion);
    return true;
}

bool WorkerPool::reap() {
    bool any = false;
    for (Entry& entry : entries_) {
        while (entry.worker && reap_one(entry))
            any = true;
    }
    return any;
}

void WorkerPool::flush() {
    for (Entry& entry : entries_) {
        if (entry.worker) entry.worker->flush();
    }
}

void WorkerPool::set_sleeping(bool sleeping) {
    for (Entry& entry : entries_) {
        if (entry.worker) entry.worker->set_sleeping(sleeping);
    }
}

std::vector<WorkerStatus> WorkerPool::status() const {
    std::vector<WorkerStatus> all;
    for (const Entry& entry : entries_) {
        if (!entry.worker) continue;
        all.push_back({entry.worker->pid(), entry.lanes.size(), entry.worker->completed()});
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
