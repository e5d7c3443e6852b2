#include "daemon/broker/scan_queue.h"

#include <poll.h>

#include <algorithm>
#include <exception>
#include <system_error>

#include "daemon/plan/draws.h"
#include "shm/wake.h"

namespace sl {

namespace {
// Scans wait for directories, not for the processor; a few hide most of that.
constexpr std::size_t kThreads = 4;
}  // namespace

Result<std::unique_ptr<ScanQueue>> ScanQueue::create(EventLoop& loop, Options options) {
    std::unique_ptr<ScanQueue> queue(new ScanQueue(loop, std::move(options)));
    auto event = make_event_fd();
    if (!event) return std::unexpected(event.error());
    queue->event_ = std::move(*event);
    auto added = loop.add(queue->event_.get(), [raw = queue.get()](std::uint32_t) { raw->deliver(); });
    if (!added) return std::unexpected(added.error());
    return queue;
}

ScanQueue::~ScanQueue() {
    loop_.remove(event_.get());
    for (Job& job : running_)
        job.thread.join();
}

bool ScanQueue::finish(std::chrono::milliseconds grace) {
    waiting_.clear();
    auto deadline = std::chrono::steady_clock::now() + grace;
    auto done = [](const Job& job) { return job.finished.load(std::memory_order_acquire); };
    while (!std::ranges::all_of(running_, done)) {
        auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
        if (left.count() <= 0) return false;
        pollfd event = {event_.get(), POLLIN, 0};
        if (::poll(&event, 1, static_cast<int>(left.count())) > 0) quiet(event_.get());
    }
    return true;
}

Result<ScanQueue::Made> ScanQueue::work(Job& job) const {
    if (job.dataset) {
        auto size = first_picture_size(options_.worker_program, *job.dataset);
        if (!size) return std::unexpected(std::move(size).error());
        return Made{job.dataset, *size};
    }
    options_.quarantine->refresh();
    auto dataset = Dataset::scan(job.path, {.manifest_folder = options_.manifest_folder,
                                            .known = std::move(job.known),
                                            .progress = &job.progress});
    if (!dataset) return std::unexpected(std::move(dataset).error());
    return Made{std::move(*dataset), {}};
}

// The messages are short enough to need no memory.
Result<ScanQueue::Made> ScanQueue::guarded(Job& job) const {
    try {
        return work(job);
    } catch (const std::bad_alloc&) {
        return fail(Status::kNoMemory, "out of memory");
    } catch (const std::exception&) {
        return fail(Status::kInternal, "scan failed");
    }
}

void ScanQueue::scan(const Spec& spec, std::weak_ptr<const void> asker, Done done) {
    job_for(spec).askers.push_back({spec, std::move(asker), std::move(done)});
    start_waiting();
}

ScanQueue::Job& ScanQueue::job_for(const Spec& spec) {
    for (Job& job : waiting_) {
        if (!job.dataset && job.path == spec.path) return job;
    }
    Job& added = waiting_.emplace_back();
    added.path = spec.path;
    return added;
}

bool ScanQueue::is_being_scanned(const std::string& path) const {
    return std::ranges::any_of(running_, [&](const Job& job) { return !job.dataset && job.path == path; });
}

std::list<ScanQueue::Job>::iterator ScanQueue::next_to_start() {
    return std::ranges::find_if(
        waiting_, [this](const Job& job) { return job.dataset || !is_being_scanned(job.path); });
}

void ScanQueue::start_waiting() {
    while (running_.size() < kThreads) {
        auto next = next_to_start();
        if (next == waiting_.end()) return;
        running_.splice(running_.end(), waiting_, next);
        Job& job = running_.back();
        if (auto known = known_.find(job.path); known != known_.end()) job.known = known->second.lock();
        std::erase_if(job.askers, [](const Asker& asker) { return asker.alive.expired(); });
        if (job.askers.empty()) {
            running_.pop_back();
            continue;
        }
        try {
            job.thread = std::thread([this, &job] {
                job.made = guarded(job);
                job.finished.store(true, std::memory_order_release);
                ring(event_.get());
            });
        } catch (const std::system_error& error) {
            std::list<Asker> askers = std::move(job.askers);
            running_.pop_back();
            refuse(std::move(askers),
                   os_error(Status::kNoMemory, "cannot start a thread for a scan", error.code().value()));
        }
    }
}

void ScanQueue::deliver() {
    quiet(event_.get());
    std::list<Job> finished;
    for (auto job = running_.begin(); job != running_.end();) {
        auto next = std::next(job);
        if (job->finished.load(std::memory_order_acquire)) finished.splice(finished.end(), running_, job);
        job = next;
    }
    for (Job& job : finished) {
        job.thread.join();
        remember(job);
        answer(job);
    }
    start_waiting();
}

// Before the askers are answered, who may drop the dataset at once: then the job that waits for this one has
// the file to look at.
void ScanQueue::remember(const Job& job) {
    if (job.dataset || !*job.made) return;
    const FolderSource& folder = (*job.made)->dataset->folder();
    ++(folder.manifest_use().used ? recalled_ : made_);
    std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
    known_[job.path] = folder.manifest();
}

void ScanQueue::answer(Job& job) {
    if (!*job.made) return refuse(std::move(job.askers), job.made->error());
    const Made& made = **job.made;
    while (!job.askers.empty()) {
        std::list<Asker> one;
        one.splice(one.end(), job.askers, job.askers.begin());
        Asker& asker = one.front();
        if (asker.alive.expired()) continue;
        if (job.dataset) {
            asker.spec.pipeline.width = made.size.width;
            asker.spec.pipeline.height = made.size.height;
            asker.done(Scanned{made.dataset, asker.spec});
            continue;
        }
        auto part = Dataset::part(made.dataset, asker.spec.subset);
        if (!part) {
            refuse(std::move(one), part.error());
        } else if (has_fixed_size(asker.spec.pipeline)) {
            asker.done(Scanned{std::move(*part), asker.spec});
        } else {
            Job& look = waiting_.emplace_back();
            look.path = job.path;
            look.dataset = std::move(*part);
            look.askers = std::move(one);
        }
    }
}

void ScanQueue::refuse(std::list<Asker> askers, const Error& error) {
    for (Asker& asker : askers) {
        if (!asker.alive.expired()) asker.done(std::unexpected(error));
    }
}

std::vector<ScanStatus> ScanQueue::status() const {
    std::vector<ScanStatus> all;
    for (const auto* jobs : {&running_, &waiting_}) {
        for (const Job& job : *jobs) {
            all.push_back({job.path, jobs == &running_, job.askers.size(),
                           job.progress.directories.load(std::memory_order_relaxed),
                           job.progress.images.load(std::memory_order_relaxed)});
        }
    }
    return all;
}

}  // namespace sl
