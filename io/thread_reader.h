// The reader's second back end: threads that call open and pread, some for each mount.
//
// For hosts that refuse io_uring, and for files that io_uring reads wrongly or that may never come. The
// conductor is the only caller. Requests wait in its own list until flush(), then in their mount's queue; a
// mount's threads are started as its requests come, and take from no other queue, so a mount that falls
// silent costs its own threads only. A call that is given up is left alone with its thread: the thread's
// place is free for a new one, and when the call returns it takes a place again if one is free. All that
// threads touch is in State, which they own together, so a stuck thread may outlive its reader. Where no
// thread can be started, requests complete with EAGAIN.
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

    struct MountQueue {
        std::uint64_t device = 0;
        std::deque<Request> requests;
        std::condition_variable filled;
        std::size_t threads = 0;  // that are not at a call that was given up
        std::size_t idle = 0;     // of these, without a request
    };
    struct Call {
        std::optional<std::uint64_t> tag;  // none: a close, which nobody waits for
        Clock::time_point began;
        MountQueue* queue = nullptr;
        bool given_up = false;
    };
    struct State {
        State(EventFd its_event, const ReaderOptions& options);

        EventFd event;
        const std::size_t most_threads;  // of a mount
        const std::chrono::milliseconds retry_for;

        std::mutex mutex;  // of all below
        std::map<std::uint64_t, MountQueue> queues;
        std::map<std::uint64_t, Call> calls;  // under way, by a number of their own
        std::uint64_t next_call = 0;
        HungMounts hung;
        std::size_t alive = 0;  // threads, all of them
        std::condition_variable one_ended;
        bool stopping = false;
        std::vector<ReadCompletion> done;
    };

    explicit ThreadReader(std::shared_ptr<State> state) : state_(std::move(state)) {}

    static std::optional<std::uint64_t> tag_of(const Request& request);
    static void start_threads(const std::shared_ptr<State>& state, MountQueue& queue);
    static void work(State& state, MountQueue& queue);
    static std::optional<ReadCompletion> perform(const State& state, const Request& request);
    static void publish(State& state, const ReadCompletion& completion);
    static void refuse_all(State& state, MountQueue& queue, int error);

    std::shared_ptr<State> state_;
    std::vector<Request> unflushed_;  // the conductor's
    std::size_t in_flight_ = 0;       // the conductor's
};

}  // namespace sl
