#include "daemon/pool/background.h"

#include <algorithm>
#include <iterator>
#include <set>
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
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
        waiting_.clear();
        wanted_.notify_all();
    }
    for (std::thread& thread : threads_)
        thread.join();
    threads_.clear();
    running_.clear();
    event_.reset();
}

void Background::run(uid_t uid, std::function<void()> work, std::function<void()> done) {
    std::unique_lock lock(mutex_);
    waiting_.push_back({uid, std::move(work), std::move(done)});
    const auto job = next();
    if (job == waiting_.end()) return;
    if (idle_ < users_to_start() && threads_.size() < kThreads) start_thread();
    if (threads_.empty()) return do_work(lock, job);
    wanted_.notify_one();
}

void Background::start_thread() {
    try {
        threads_.emplace_back([this] { work_on(); });
    } catch (const std::system_error&) {
        return;
    }
}

// The first whose user has none under way.
Background::Jobs::iterator Background::next() {
    return std::ranges::find_if(waiting_, [this](const Job& job) {
        return std::ranges::find(running_, job.uid, &Job::uid) == running_.end();
    });
}

std::size_t Background::users_to_start() const {
    std::set<uid_t> users;
    for (const Job& job : waiting_)
        users.insert(job.uid);
    for (const Job& job : running_)
        users.erase(job.uid);
    return users.size();
}

void Background::work_on() {
    std::unique_lock lock(mutex_);
    while (true) {
        ++idle_;
        wanted_.wait(lock, [this] { return stopping_ || next() != waiting_.end(); });
        --idle_;
        if (stopping_) return;
        do_work(lock, next());
    }
}

void Background::do_work(std::unique_lock<std::mutex>& lock, Jobs::iterator job) {
    running_.splice(running_.end(), waiting_, job);
    lock.unlock();
    job->work();
    lock.lock();
    job->finished = true;
    ring(event_.get());
}

void Background::deliver() {
    quiet(event_.get());
    Jobs finished;
    {
        const std::lock_guard lock(mutex_);
        for (auto job = running_.begin(); job != running_.end();) {
            const auto following = std::next(job);
            if (job->finished) finished.splice(finished.end(), running_, job);
            job = following;
        }
        if (next() != waiting_.end()) wanted_.notify_all();
    }
    for (Job& job : finished)
        job.done();
}

}  // namespace sl
