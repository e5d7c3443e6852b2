// See thread_reader.h.
#include "io/thread_reader.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>

#include "io/plain_calls.h"
#include "io/test_hooks.h"

namespace sl {

ThreadReader::State::State(EventFd its_event, const ReaderOptions& options)
    : event(std::move(its_event)),
      most_threads(std::max(options.threads, 1U)),
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
    for (auto& [device, queue] : state.queues) {
        queue.requests.clear();
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
        std::uint64_t device = std::visit([](const auto& it) { return it.mount.device; }, request);
        MountQueue& queue = state.queues[device];
        queue.device = device;
        queue.requests.push_back(std::move(request));
    }
    unflushed_.clear();
    for (auto& [device, queue] : state.queues) {
        if (state.hung.out_of_service(device)) refuse_all(state, queue, ETIMEDOUT);
        start_threads(state_, queue);
        queue.requests.size() > 1 ? queue.filled.notify_all() : queue.filled.notify_one();
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
        --call.queue->threads;
        state.hung.add(call.queue->device);
        if (call.tag) tags.push_back(*call.tag);
    }
    for (auto& [device, queue] : state.queues) {
        if (state.hung.out_of_service(device)) refuse_all(state, queue, ETIMEDOUT);
        start_threads(state_, queue);
    }
}

std::size_t ThreadReader::hung() const {
    std::lock_guard lock(state_->mutex);
    return state_->hung.total();
}

std::string ThreadReader::description() const {
    return "threads: " + std::to_string(thread_count()) +
           " threads for each mount, blocking reads, no registered memory";
}

std::optional<std::uint64_t> ThreadReader::tag_of(const Request& request) {
    if (const auto* opening = std::get_if<Opening>(&request)) return opening->tag;
    if (const auto* reading = std::get_if<ReadRequest>(&request)) return reading->tag;
    return std::nullopt;
}

// --- with the lock held, except in perform() ---------------------------------------------------------------

void ThreadReader::start_threads(const std::shared_ptr<State>& state, MountQueue& queue) {
    if (state->hung.out_of_service(queue.device)) return;
    while (queue.idle < queue.requests.size() && queue.threads < state->most_threads) {
        try {
            std::thread([state, &queue] { work(*state, queue); }).detach();
        } catch (const std::system_error&) {
            // Fewer threads than asked for still read everything.
            if (queue.threads == 0) refuse_all(*state, queue, EAGAIN);
            return;
        }
        ++queue.threads;
        ++queue.idle;
        ++state->alive;
    }
}

void ThreadReader::work(State& state, MountQueue& queue) {
    std::unique_lock lock(state.mutex);
    while (true) {
        queue.filled.wait(lock, [&] { return state.stopping || !queue.requests.empty(); });
        --queue.idle;
        if (state.stopping) break;
        Request request = std::move(queue.requests.front());
        queue.requests.pop_front();
        auto call =
            state.calls.try_emplace(state.next_call++, Call{tag_of(request), Clock::now(), &queue, false})
                .first;
        lock.unlock();
        auto completion = perform(state, request);
        lock.lock();
        if (completion) publish(state, *completion);
        bool given_up = call->second.given_up;
        state.calls.erase(call);
        if (given_up) {
            state.hung.remove(queue.device);
            if (queue.threads >= state.most_threads) break;
            ++queue.threads;
        }
        ++queue.idle;
    }
    --state.alive;
    state.one_ended.notify_all();
}

std::optional<ReadCompletion> ThreadReader::perform(const State& state, const Request& request) {
    if (const auto* closing = std::get_if<Closing>(&request)) {
        ::close(closing->fd);
        return std::nullopt;
    }
    RetryBudget budget(state.retry_for);
    if (const auto* opening = std::get_if<Opening>(&request)) {
        return plain_open({opening->tag, opening->path.c_str(), opening->mount, opening->reach}, budget)
            .completion;
    }
    return plain_read(*std::get_if<ReadRequest>(&request), budget);
}

// Only the first of a batch wakes the conductor. The event is drained before a batch is taken, so a signal
// that comes late makes one empty reap and is never lost.
void ThreadReader::publish(State& state, const ReadCompletion& completion) {
    state.done.push_back(completion);
    if (state.done.size() == 1) state.event.signal();
}

// Closes stay: nobody else has their descriptors.
void ThreadReader::refuse_all(State& state, MountQueue& queue, int error) {
    for (const Request& request : queue.requests) {
        auto tag = tag_of(request);
        if (!tag) continue;
        ReadCompletion completion;
        completion.tag = *tag;
        completion.is_open = std::holds_alternative<Opening>(request);
        completion.error = error;
        publish(state, completion);
    }
    std::erase_if(queue.requests, [](const Request& request) { return tag_of(request).has_value(); });
}

}  // namespace sl
