// The reader's second back end: threads that call open and pread, some for each user's files on each mount.
//
// For hosts that refuse io_uring, and for files that io_uring reads wrongly or that may never come. The
// conductor is the only caller. Requests wait in its own list until flush(), then in the queue of their user
// and mount; a queue's threads are started as its requests come, take from no other queue and end when they
// have been idle for a while, so a mount that falls silent costs its own threads only, and a user its own. A
// user has so many threads; beyond, its queues take turns at them. A call that is to be tried again waits
// without a thread. A call that is given up is left alone with its thread: the thread's place is free for a
// new one, and when the call returns it takes a place again if one is free. All that threads touch is in
// State, which they own together, so a stuck thread may outlive its reader. Where no thread can be started,
// requests complete with EAGAIN. The threads' own side is in thread_work.cpp.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "io/event_fd.h"
#include "io/hung_mounts.h"
#include "io/plain_calls.h"
#include "io/reader.h"

namespace sl {

class ThreadReader final : public Reader {
  public:
    static Result<std::unique_ptr<ThreadReader>> create(const ReaderOptions& options);
    // As part of another reader: signals that reader's event, which only its owner drains, before take().
    static std::unique_ptr<ThreadReader> create(const ReaderOptions& options, EventFd event);

    // Waits for the calls under way; requests not begun are dropped, and descriptors nobody reaped closed.
    ~ThreadReader() override;

    void open(const OpenRequest& request) override;
    void read(const ReadRequest& request) override;
    void flush() override;
    void close(int fd, const Mount& mount) override;
    std::size_t reap(std::vector<ReadCompletion>& out) override;
    // reap() without draining the event.
    std::size_t take(std::vector<ReadCompletion>& out);
    void give_up(Clock::time_point begun_before, std::vector<std::uint64_t>& tags) override;
    [[nodiscard]] std::size_t hung() const override;
    bool finish(std::chrono::milliseconds grace) override;
    [[nodiscard]] int event_fd() const override { return state_->event.get(); }
    [[nodiscard]] std::string_view backend() const override { return "threads"; }
    [[nodiscard]] std::string description() const override;
    [[nodiscard]] std::size_t in_flight() const override { return in_flight_; }
    [[nodiscard]] std::size_t thread_count() const { return state_->most_threads; }

  private:
    struct Opening {
        std::uint64_t tag;
        std::string path;
        Mount mount;
        std::shared_ptr<const Reach> reach;
    };
    struct Closing {
        int fd;
        Mount mount;
    };
    using Request = std::variant<Opening, ReadRequest, Closing>;

    // A request through all its tries.
    struct Job {
        Request request;
        RetryBudget budget;
        std::uint64_t done = 0;                       // bytes read so far
        std::optional<Clock::time_point> began = {};  // its first try
    };
    struct Queue {
        Mount::Key of;
        std::deque<Job> jobs;
        std::multimap<Clock::time_point, Job> later;  // by when they are to be tried again
        std::condition_variable filled;
        std::size_t threads = 0;      // that are not at a call that was given up
        std::size_t idle = 0;         // of these, without a job
        std::size_t alive = 0;        // all of them; the last one takes the queue with it
        std::uint64_t last_turn = 0;  // when it got a thread, as a number that grows
    };
    struct Call {
        std::optional<std::uint64_t> tag;  // none: a close, which nobody waits for
        Clock::time_point began;           // its request's first try
        Queue* queue = nullptr;
        bool given_up = false;
    };
    struct State {
        State(EventFd its_event, const ReaderOptions& options);

        EventFd event;
        const std::size_t most_threads;  // of a queue
        const std::size_t most_of_user;
        const std::chrono::milliseconds retry_for;

        std::mutex mutex;  // of all below
        std::map<Mount::Key, Queue> queues;
        std::map<std::optional<uid_t>, std::size_t> threads_of;  // users' threads, as Queue::threads counts
        std::map<std::uint64_t, Call> calls;                     // under way, by a number of their own
        std::uint64_t next_call = 0;
        std::uint64_t next_turn = 0;
        HungMounts hung;
        std::size_t alive = 0;  // threads, all of them
        std::condition_variable one_ended;
        bool stopping = false;
        std::vector<ReadCompletion> done;
    };

    explicit ThreadReader(std::shared_ptr<State> state) : state_(std::move(state)) {}

    static std::optional<std::uint64_t> tag_of(const Request& request);
    static Tried perform(Job& job);

    // All with the lock held.
    static void start_threads(const std::shared_ptr<State>& state, Queue& queue);
    static bool start_thread(const std::shared_ptr<State>& state, Queue& queue);
    static Queue* next_without_thread(State& state, const std::optional<uid_t>& user);
    static void work(const std::shared_ptr<State>& state, Queue& queue);
    static bool wait_for_job(State& state, Queue& queue, std::unique_lock<std::mutex>& lock);
    static bool do_next(State& state, Queue& queue, std::unique_lock<std::mutex>& lock);
    static void lose_place(State& state, Queue& queue);
    static void end(const std::shared_ptr<State>& state, Queue& queue);
    static void answer(State& state, const Request& request, ReadCompletion completion);
    static void refuse(State& state, const Request& request, int error);
    static void refuse_all(State& state, Queue& queue, int error);

    std::shared_ptr<State> state_;
    std::vector<Request> unflushed_;  // the conductor's
    std::size_t in_flight_ = 0;       // the conductor's
};

}  // namespace sl
