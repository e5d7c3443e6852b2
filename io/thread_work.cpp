// The threads' side of thread_reader.h: who gets one, what it does, and when it ends.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include "io/thread_reader.h"

namespace sl {

namespace {
// Starting a thread takes some 20 us, and an idle one keeps a place that another queue of its user's may
// want.
constexpr std::chrono::seconds kIdle{1};
}  // namespace

void ThreadReader::start_threads(const std::shared_ptr<State>& state, Queue& queue) {
    if (state->hung.out_of_service(queue.of)) return;
    // One is kept for what is tried again, which must not wait for a call that hangs.
    const auto wanted = [&queue] { return queue.jobs.size() + (queue.later.empty() ? 0 : 1); };
    while (queue.idle < wanted() && queue.threads < state->most_threads &&
           state->threads_of[queue.of.user] < state->most_of_user) {
        if (start_thread(state, queue)) continue;
        // Fewer threads than asked for still read everything.
        if (queue.threads == 0) refuse_all(*state, queue, EAGAIN);
        return;
    }
}

bool ThreadReader::start_thread(const std::shared_ptr<State>& state, Queue& queue) {
    try {
        std::thread([state, &queue] { work(state, queue); }).detach();
    } catch (const std::system_error&) {
        return false;
    }
    ++queue.threads;
    ++queue.idle;
    ++queue.alive;
    queue.last_turn = ++state->next_turn;
    ++state->threads_of[queue.of.user];
    ++state->alive;
    return true;
}

// Of a user's queues that wait for a thread, the one that has had none for longest.
ThreadReader::Queue* ThreadReader::next_without_thread(State& state, const std::optional<uid_t>& user) {
    Queue* next = nullptr;
    for (auto& [of, queue] : state.queues) {
        if (of.user != user || queue.threads > 0 || (queue.jobs.empty() && queue.later.empty())) continue;
        if (state.hung.out_of_service(of)) continue;
        if (next == nullptr || queue.last_turn < next->last_turn) next = &queue;
    }
    return next;
}

void ThreadReader::work(const std::shared_ptr<State>& state, Queue& queue) {
    std::unique_lock lock(state->mutex);
    while (wait_for_job(*state, queue, lock)) {
        if (!queue.later.empty()) start_threads(state, queue);
        if (!do_next(*state, queue, lock)) break;
    }
    end(state, queue);
}

// False where the thread is to end; its place is free then.
bool ThreadReader::wait_for_job(State& state, Queue& queue, std::unique_lock<std::mutex>& lock) {
    const Clock::time_point until = Clock::now() + kIdle;
    while (!state.stopping) {
        while (!queue.later.empty() && queue.later.begin()->first <= Clock::now())
            queue.jobs.push_back(std::move(queue.later.extract(queue.later.begin()).mapped()));
        if (!queue.jobs.empty()) return true;
        if (queue.later.empty() && Clock::now() >= until) break;
        // A copy: while this waits the job may be given up.
        const Clock::time_point next = queue.later.empty() ? until : queue.later.begin()->first;
        queue.filled.wait_until(lock, next);
    }
    --queue.idle;
    lose_place(state, queue);
    return false;
}

// The same.
bool ThreadReader::do_next(State& state, Queue& queue, std::unique_lock<std::mutex>& lock) {
    --queue.idle;
    Job job = std::move(queue.jobs.front());
    queue.jobs.pop_front();
    if (!job.began) job.began = Clock::now();
    const Call begun{tag_of(job.request), *job.began, &queue, false};
    const auto call = state.calls.try_emplace(state.next_call++, begun).first;
    lock.unlock();
    Tried tried = perform(job);
    lock.lock();
    const bool given_up = call->second.given_up;
    state.calls.erase(call);
    if (tried.again && !given_up && !state.stopping) {
        job.done = tried.completion.bytes;
        queue.later.emplace(Clock::now() + *tried.again, std::move(job));
    } else if (begun.tag) {
        answer(state, job.request, tried.completion);
    }

    std::size_t& of_user = state.threads_of[queue.of.user];
    if (given_up) {
        state.hung.remove(queue.of);
        if (queue.threads >= state.most_threads || of_user >= state.most_of_user) return false;
        ++queue.threads;
        ++of_user;
    }
    ++queue.idle;
    const bool has_others = queue.idle > 1 || queue.later.empty();
    if (of_user < state.most_of_user || !has_others || next_without_thread(state, queue.of.user) == nullptr)
        return true;
    --queue.idle;
    lose_place(state, queue);
    return false;
}

void ThreadReader::lose_place(State& state, Queue& queue) {
    --queue.threads;
    --state.threads_of[queue.of.user];
}

// Whose place is free is another's now.
void ThreadReader::end(const std::shared_ptr<State>& state, Queue& queue) {
    const std::optional<uid_t> user = queue.of.user;
    if (--queue.alive == 0 && queue.jobs.empty() && queue.later.empty())
        state->queues.erase(Mount::Key(queue.of));
    if (Queue* next = state->stopping ? nullptr : next_without_thread(*state, user))
        start_threads(state, *next);
    --state->alive;
    state->one_ended.notify_all();
}

Tried ThreadReader::perform(Job& job) {
    if (const auto* closing = std::get_if<Closing>(&job.request)) {
        ::close(closing->fd);
        return {};
    }
    if (const auto* opening = std::get_if<Opening>(&job.request)) {
        return plain_open({opening->tag, opening->path.c_str(), opening->mount, opening->reach}, job.budget);
    }
    return plain_read(*std::get_if<ReadRequest>(&job.request), job.done, job.budget);
}

std::optional<std::uint64_t> ThreadReader::tag_of(const Request& request) {
    if (const auto* opening = std::get_if<Opening>(&request)) return opening->tag;
    if (const auto* reading = std::get_if<ReadRequest>(&request)) return reading->tag;
    return std::nullopt;
}

// Only the first of a batch wakes the conductor. The event is drained before a batch is taken, so a signal
// that comes late makes one empty reap and is never lost.
void ThreadReader::answer(State& state, const Request& request, ReadCompletion completion) {
    completion.mount = std::visit([](const auto& it) { return it.mount; }, request);
    state.done.push_back(completion);
    if (state.done.size() == 1) state.event.signal();
}

void ThreadReader::refuse(State& state, const Request& request, int error) {
    ReadCompletion completion;
    completion.tag = *tag_of(request);
    completion.is_open = std::holds_alternative<Opening>(request);
    completion.error = error;
    answer(state, request, completion);
}

// Closes stay: nobody else has their descriptors.
void ThreadReader::refuse_all(State& state, Queue& queue, int error) {
    for (const Job& job : queue.jobs) {
        if (tag_of(job.request)) refuse(state, job.request, error);
    }
    for (const auto& [when, job] : queue.later)
        refuse(state, job.request, error);
    std::erase_if(queue.jobs, [](const Job& job) { return tag_of(job.request).has_value(); });
    queue.later.clear();
}

}  // namespace sl
