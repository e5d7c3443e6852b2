#include "daemon/pool/background.h"

#include <algorithm>
#include <iterator>
#include <system_error>
#include <utility>

#include "shm/wake.h"

namespace sl {

namespace {
// Users at the same time. The kernel clears pages as fast as memory takes it, so more would gain little.
constexpr std::size_t kThreads = 4;
}  // namespace

Result<std::unique_ptr<Background>> Background::create(EventLoop& loop) {
    std::unique_ptr<Background> made(new Background(loop));
    auto event = make_event_fd();
    if (!event) return std::unexpected(event.error());
    made->event_ = std::move(*event);
    auto added = loop.add(made->event_.get(), [raw = made.get()](std::uint32_t) { raw->deliver(); });
    if (!added) return std::unexpected(added.error());
    return made;
}

void Background::shut_down() {
    if (event_) loop_.remove(event_.get());
    for (Job& job : running_) {
        if (job.thread.joinable()) job.thread.join();
    }
    running_.clear();
    waiting_.clear();
    event_.reset();
}

void Background::run(uid_t uid, std::function<void()> work, std::function<void()> done) {
    Job& job = waiting_.emplace_back();
    job.uid = uid;
    job.work = std::move(work);
    job.done = std::move(done);
    start_waiting();
}

bool Background::may_start(const Job& job) const {
    return running_.size() < kThreads && std::ranges::find(running_, job.uid, &Job::uid) == running_.end();
}

void Background::start_waiting() {
    for (auto job = waiting_.begin(); job != waiting_.end();) {
        const auto next = std::next(job);
        if (may_start(*job)) {
            running_.splice(running_.end(), waiting_, job);
            start(running_.back());
        }
        job = next;
    }
}

void Background::start(Job& job) {
    auto work = [this, &job] {
        job.work();
        job.finished.store(true, std::memory_order_release);  // WORKED
        ring(event_.get());
    };
    try {
        job.thread = std::thread(work);
    } catch (const std::system_error&) {
        work();
    }
}

void Background::deliver() {
    quiet(event_.get());
    std::list<Job> finished;
    for (auto job = running_.begin(); job != running_.end();) {
        const auto next = std::next(job);
        if (job->finished.load(std::memory_order_acquire))
            finished.splice(finished.end(), running_, job);  // WORKED
        job = next;
    }
    start_waiting();
    for (Job& job : finished) {
        if (job.thread.joinable()) job.thread.join();
        job.done();
    }
}

}  // namespace sl
