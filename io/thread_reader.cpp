// See thread_reader.h.
#include "io/thread_reader.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "io/test_hooks.h"

namespace sl {

namespace {
constexpr std::size_t kMostOfUser = 32;  // of its threads, or as many as one queue may have
}  // namespace

ThreadReader::State::State(EventFd its_event, const ReaderOptions& options)
    : event(std::move(its_event)),
      most_threads(std::max(options.threads, 1U)),
      most_of_user(std::max(most_threads, kMostOfUser)),
      retry_for(options.retry_for) {}

Result<std::unique_ptr<ThreadReader>> ThreadReader::create(const ReaderOptions& options) {
    auto event = EventFd::create();
    if (!event) return std::unexpected(std::move(event.error()));
    return create(options, std::move(*event));
}

std::unique_ptr<ThreadReader> ThreadReader::create(const ReaderOptions& options, EventFd event) {
    return std::unique_ptr<ThreadReader>(
        new ThreadReader(std::make_shared<State>(std::move(event), options)));
}

ThreadReader::~ThreadReader() {
    while (!finish(std::chrono::hours(1))) {
    }
    for (const auto& completion : state_->done) {
        if (completion.is_open && completion.fd >= 0) ::close(completion.fd);
    }
}

bool ThreadReader::finish(std::chrono::milliseconds grace) {
    State& state = *state_;
    std::unique_lock lock(state.mutex);
    state.stopping = true;
    for (auto& [of, queue] : state.queues) {
        queue.jobs.clear();
        queue.later.clear();
        queue.filled.notify_all();
    }
    return state.one_ended.wait_for(lock, grace, [&] { return state.alive == 0; });
}

void ThreadReader::open(const OpenRequest& request) {
    unflushed_.emplace_back(Opening{request.tag, request.path, request.mount, request.reach});
    ++in_flight_;
}

void ThreadReader::read(const ReadRequest& request) {
    unflushed_.emplace_back(request);
    ++in_flight_;
}

void ThreadReader::close(int fd, const Mount& mount) {
    unflushed_.emplace_back(Closing{fd, mount});
}

void ThreadReader::flush() {
    if (unflushed_.empty()) return;
    State& state = *state_;
    std::lock_guard lock(state.mutex);
    for (Request& request : unflushed_) {
        const Mount::Key of = std::visit([](const auto& it) { return it.mount.key(); }, request);
        Queue& queue = state.queues[of];
        queue.of = of;
        queue.jobs.push_back({std::move(request), RetryBudget(state.retry_for)});
    }
    unflushed_.clear();
    for (auto& [of, queue] : state.queues) {
        if (state.hung.out_of_service(of)) refuse_all(state, queue, ETIMEDOUT);
        start_threads(state_, queue);
        queue.jobs.size() > 1 ? queue.filled.notify_all() : queue.filled.notify_one();
    }
}

std::size_t ThreadReader::reap(std::vector<ReadCompletion>& out) {
    state_->event.drain();
    return take(out);
}

std::size_t ThreadReader::take(std::vector<ReadCompletion>& out) {
    std::vector<ReadCompletion> finished;
    {
        std::lock_guard lock(state_->mutex);
        finished.swap(state_->done);
    }
    test_hooks::reorder(finished);
    out.insert(out.end(), finished.begin(), finished.end());
    in_flight_ -= finished.size();
    return finished.size();
}

void ThreadReader::give_up(Clock::time_point begun_before, std::vector<std::uint64_t>& tags) {
    State& state = *state_;
    std::lock_guard lock(state.mutex);
    for (auto& [number, call] : state.calls) {
        if (call.given_up || call.began >= begun_before) continue;
        call.given_up = true;
        lose_place(state, *call.queue);
        state.hung.add(call.queue->of);
        if (call.tag) tags.push_back(*call.tag);
    }
    for (auto& [of, queue] : state.queues) {
        std::erase_if(queue.later, [&](const auto& waiting) {
            const Job& job = waiting.second;
            if (*job.began >= begun_before) return false;
            tags.push_back(*tag_of(job.request));
            refuse(state, job.request, ETIMEDOUT);
            return true;
        });
        if (state.hung.out_of_service(of)) refuse_all(state, queue, ETIMEDOUT);
        start_threads(state_, queue);
    }
}

std::size_t ThreadReader::hung() const {
    std::lock_guard lock(state_->mutex);
    return state_->hung.total();
}

std::string ThreadReader::description() const {
    return "threads: " + std::to_string(thread_count()) +
           " threads for each user's files on each mount, blocking reads, no registered memory";
}

}  // namespace sl
