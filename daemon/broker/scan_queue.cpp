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
// A scan that takes longer may be one of a mount that never answers, and leaves its place to others...
constexpr std::chrono::seconds kLong{5};
// ...as long as its user has not so many of them.
constexpr std::size_t kMostOfUser = 16;
constexpr std::size_t kMostOfOwn = 64;  // of the daemon's own user
// Of another user's, that wait.
constexpr std::size_t kMostWaiting = 256;
// Of all users together.
constexpr std::size_t kMostThreads = 512;
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
    if (next_look_) loop_.cancel(*next_look_);
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
    // A manifest's file is found by the folder alone, so it keeps only what the daemon itself may see.
    auto dataset = Dataset::scan(job.path, {.manifest_folder = job.reach ? "" : options_.manifest_folder,
                                            .known = std::move(job.known),
                                            .progress = &job.progress,
                                            .reach = job.reach});
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

void ScanQueue::scan(const Spec& spec, uid_t uid, Reaches reaches, std::weak_ptr<const void> asker,
                     Done done) {
    drop_unwanted();
    if (const auto error = too_many(uid, spec, reaches)) return done(std::unexpected(*error));
    auto request = std::make_shared<Request>();
    request->spec = spec;
    request->uid = uid;
    request->reaches = std::move(reaches);
    request->asker = std::move(asker);
    request->done = std::move(done);
    request->folders.resize(spec.parts.size());
    for (std::size_t part = 0; part < spec.parts.size(); ++part) {
        Job& job = job_for(spec.parts[part].path, request->reaches[part]);
        if (!job.askers.empty() && job.askers.back() == request) continue;  // a folder that is several parts
        job.askers.push_back(request);
        ++request->missing;
    }
    start_waiting();
}

std::string ScanQueue::key_of(const std::string& path, const Reach* reach) {
    return reach == nullptr ? path : path + '\0' + reach->identity();
}

ScanQueue::Job& ScanQueue::job_for(const std::string& path, const std::shared_ptr<const Reach>& reach) {
    std::string key = key_of(path, reach.get());
    const auto found = std::ranges::find(waiting_, key, &Job::key);
    if (found != waiting_.end()) return *found;
    Job& added = waiting_.emplace_back();
    added.path = path;
    added.key = std::move(key);
    added.reach = reach;
    return added;
}

// Each scan that begins or ends looks at all that wait, so one user may have only so many there.
std::optional<Error> ScanQueue::too_many(uid_t uid, const Spec& spec, const Reaches& reaches) const {
    if (reaches.empty() || !reaches.front()) return std::nullopt;
    const auto waiting =
        std::ranges::count_if(waiting_, [uid](const Job& job) { return job.askers.front()->uid == uid; });
    if (static_cast<std::size_t>(waiting) + spec.parts.size() <= kMostWaiting) return std::nullopt;
    return Error{Status::kBudget,
                 "user " + std::to_string(uid) + " has " + std::to_string(waiting) +
                     " folders that wait to be scanned, and may have " + std::to_string(kMostWaiting) +
                     "; try again when some are done",
                 0};
}

bool ScanQueue::is_being_scanned(const Job& wanted) const {
    return std::ranges::any_of(running_, [&](const Job& job) { return job.key == wanted.key; });
}

// Who has fewest running is next, then who came first. Who has none waits for nobody's.
std::list<ScanQueue::Job>::iterator ScanQueue::next_to_start() {
    auto chosen = waiting_.end();
    if (running_.size() >= kMostThreads) return chosen;
    const bool is_busy = lately_started() >= kThreads;
    std::size_t least = 0;
    for (auto job = waiting_.begin(); job != waiting_.end(); ++job) {
        if (!job->dataset && is_being_scanned(*job)) continue;
        const std::size_t others = running_for(*job);
        if (others >= (job->reach ? kMostOfUser : kMostOfOwn) || (is_busy && others > 0)) continue;
        if (chosen != waiting_.end() && others >= least) continue;
        chosen = job;
        least = others;
    }
    return chosen;
}

// How many run already for the user who asked for this one.
std::size_t ScanQueue::running_for(const Job& wanted) const {
    const uid_t uid = wanted.askers.front()->uid;
    auto is_theirs = [uid](const Job& job) {
        return std::ranges::any_of(job.askers, [uid](const Asker& asker) { return asker->uid == uid; });
    };
    return static_cast<std::size_t>(std::ranges::count_if(running_, is_theirs));
}

std::size_t ScanQueue::lately_started() const {
    const auto long_ago = std::chrono::steady_clock::now() - kLong;
    auto counts = [&](const Job& job) { return job.began > long_ago; };
    return static_cast<std::size_t>(std::ranges::count_if(running_, counts));
}

void ScanQueue::look_again() {
    if (next_look_ || waiting_.empty()) return;
    next_look_ = loop_.after(std::chrono::seconds(1), [this] {
        next_look_.reset();
        start_waiting();
    });
}

// Those that wait behind a scan that does not end may wait for long, and be asked for again and again.
void ScanQueue::drop_unwanted() {
    for (Job& job : waiting_)
        std::erase_if(job.askers, [](const Asker& asker) { return !asker->wanted(); });
    std::erase_if(waiting_, [](const Job& job) { return job.askers.empty(); });
}

void ScanQueue::start_waiting() {
    for (auto next = next_to_start(); next != waiting_.end(); next = next_to_start()) {
        running_.splice(running_.end(), waiting_, next);
        Job& job = running_.back();
        job.began = std::chrono::steady_clock::now();
        const auto known = known_.find(job.key);
        if (known != known_.end()) job.known = known->second.lock();
        std::erase_if(job.askers, [](const Asker& asker) { return !asker->wanted(); });
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
            std::list<Job> failed;
            failed.splice(failed.end(), running_, std::prev(running_.end()));
            refuse(failed.back(),
                   os_error(Status::kNoMemory, "cannot start a thread for a scan", error.code().value()));
        }
    }
    look_again();
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
    const FolderSource& folder = (*job.made)->dataset->parts().front().folder;
    ++(folder.manifest_use().used ? recalled_ : made_);
    std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
    known_[job.key] = folder.manifest();
}

void ScanQueue::answer(Job& job) {
    if (!*job.made) return refuse(job, job.made->error());
    for (const Asker& asker : job.askers) {
        if (!job.dataset) {
            gather(asker, job);
        } else {
            asker->spec.pipeline.width = (*job.made)->size.width;
            asker->spec.pipeline.height = (*job.made)->size.height;
            asker->answer(Scanned{job.dataset, asker->spec});
        }
    }
}

void ScanQueue::gather(const Asker& asker, const Job& job) {
    const Spec& spec = asker->spec;
    for (std::size_t part = 0; part < spec.parts.size(); ++part) {
        if (job.key == key_of(spec.parts[part].path, asker->reaches[part].get()))
            asker->folders[part] = (*job.made)->dataset;
    }
    if (--asker->missing > 0 || !asker->wanted()) return;
    auto dataset = Dataset::compose(spec, asker->folders);
    if (!dataset) return asker->answer(std::unexpected(std::move(dataset).error()));
    if (has_fixed_size(spec.pipeline)) return asker->answer(Scanned{std::move(*dataset), spec});
    Job& look = waiting_.emplace_back();
    look.path = dataset_name(spec);
    look.reach = asker->reaches.front();
    look.dataset = std::move(*dataset);
    look.askers.push_back(asker);
}

// What a scan of one of a mix's folders met with says which part that is.
void ScanQueue::refuse(const Job& job, const Error& error) {
    for (const Asker& asker : job.askers) {
        Error told = error;
        if (asker->spec.kind == DatasetKind::kMix && !job.dataset) {
            const auto part = std::ranges::find(asker->spec.parts, job.path, &FolderSpec::path);
            const auto number = part - asker->spec.parts.begin();
            told.message = "dataset.parts[" + std::to_string(number) + "]: " + told.message;
        }
        asker->answer(std::unexpected(std::move(told)));
    }
}

std::vector<ScanStatus> ScanQueue::status() const {
    std::vector<ScanStatus> all;
    for (const auto* jobs : {&running_, &waiting_}) {
        for (const Job& job : *jobs) {
            all.push_back({job.path,
                           jobs == &running_,
                           job.askers.size(),
                           job.progress.directories.load(std::memory_order_relaxed),
                           job.progress.images.load(std::memory_order_relaxed),
                           {}});
            for (const Asker& asker : job.askers)
                all.back().users.insert(asker->uid);
        }
    }
    return all;
}

}  // namespace sl
