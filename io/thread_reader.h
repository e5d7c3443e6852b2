// The reader's second back end: a pool of threads that call open and pread.
//
// For hosts that refuse io_uring. The conductor is the only caller; the pool's threads share with it a queue
// of requests and a list of completions, each under its own mutex. Requests wait in the conductor's own list
// until flush(), so a batch of them costs one lock. Creation fails only when no thread can be started.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

#include "io/event_fd.h"
#include "io/reader.h"

namespace sl {

class ThreadReader final : public Reader {
  public:
    static Result<std::unique_ptr<ThreadReader>> create(const ReaderOptions& options);
    // As part of another reader: signals that reader's event, which only its owner drains, before take().
    static Result<std::unique_ptr<ThreadReader>> create(unsigned threads, EventFd event);

    // Waits for the calls under way; requests not begun are dropped, and descriptors nobody reaped closed.
    ~ThreadReader() override;

    void open(const OpenRequest& request) override;
    void read(const ReadRequest& request) override;
    void flush() override;
    std::size_t reap(std::vector<ReadCompletion>& out) override;
    // reap() without draining the event.
    std::size_t take(std::vector<ReadCompletion>& out);
    [[nodiscard]] int event_fd() const override { return event_.get(); }
    [[nodiscard]] std::string_view backend() const override { return "threads"; }
    [[nodiscard]] std::string description() const override;
    [[nodiscard]] std::size_t in_flight() const override { return in_flight_; }
    [[nodiscard]] std::size_t thread_count() const { return pool_.size(); }

  private:
    using Request = std::variant<OpenRequest, ReadRequest>;

    explicit ThreadReader(EventFd event) : event_(std::move(event)) {}
    void work();
    void publish(const ReadCompletion& completion);

    EventFd event_;
    std::vector<Request> unflushed_;  // the conductor's
    std::size_t in_flight_ = 0;       // the conductor's

    std::mutex queue_mutex_;
    std::condition_variable queue_filled_;
    std::deque<Request> queue_;
    bool stopping_ = false;

    std::mutex done_mutex_;
    std::vector<ReadCompletion> done_;

    std::vector<std::thread> pool_;
};

}  // namespace sl
