// The reader's first back end: one io_uring, fed and reaped by the conductor's thread.
//
// Not thread safe. Every accepted request is an operation in a table of our own (operation_table.h); answers
// are matched by its tags, whatever their order. An operation has at most one entry in the kernel at a time:
// its open, its next piece of read, or the timer of its back-off. Operations beyond the ring's capacity wait
// in `ready_`. Reads of files that io_uring reads wrongly (unsafe_files.h), all requests for mounts that may
// hang, and opens within a user's reach (reach.h), which are many calls that each need the one before, go to
// threads: io_uring's own are few, and shared by all mounts. So does what the kernel refuses while nothing is
// in flight. Creation fails with the errno that io_uring gave; after that, errors are completions.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/event_fd.h"
#include "io/hung_mounts.h"
#include "io/operation_table.h"
#include "io/plain_calls.h"
#include "io/reader.h"
#include "io/ring.h"
#include "io/thread_reader.h"
#include "io/unsafe_files.h"

namespace sl {

class UringReader final : public Reader {
  public:
    static Result<std::unique_ptr<UringReader>> create(const ReaderOptions& options);

    // Cancels what can be cancelled and waits for the rest, so that the kernel writes into no buffer after
    // this returns. Descriptors that nobody reaped are closed.
    ~UringReader() override;

    void open(const OpenRequest& request) override;
    void read(const ReadRequest& request) override;
    void flush() override;
    void close(int fd, const Mount& mount) override;
    std::size_t reap(std::vector<ReadCompletion>& out) override;
    void give_up(Clock::time_point begun_before, std::vector<std::uint64_t>& tags) override;
    [[nodiscard]] std::size_t hung() const override;
    bool finish(std::chrono::milliseconds grace) override;
    [[nodiscard]] int event_fd() const override { return event_.get(); }
    [[nodiscard]] std::string_view backend() const override { return "uring"; }
    [[nodiscard]] std::string description() const override;
    [[nodiscard]] std::size_t in_flight() const override { return in_flight_; }

  private:
    struct Entry {  // handed to the ring, not yet taken by the kernel
        io_uring_sqe* sqe;
        std::uint32_t operation;
        bool withdrawn;
    };
    struct Answer {
        std::uint64_t tag;
        int result;
    };

    UringReader(EventFd event, std::unique_ptr<Ring> ring, const ReaderOptions& options);

    // The threads, started by the first request for them; nullptr if they cannot be had.
    ThreadReader* threads();
    bool refuse(const Mount& mount, std::uint64_t tag, bool is_open);

    void pump();
    void fill_ring();
    void prepare(io_uring_sqe* sqe, std::uint32_t index);
    void prepare_read(io_uring_sqe* sqe, const Operation& operation) const;
    int submit();
    void withdraw_entries();
    void run_elsewhere(std::uint32_t index);

    void take_from_threads();
    void take_answers(std::vector<Answer>& answers);
    void on_answer(const Answer& answer);
    void on_read(std::uint32_t index, std::int64_t result);
    bool back_off(std::uint32_t index, int error);
    void finish_open_of(std::uint32_t index, const Opened& opened);
    void finish(std::uint32_t index, ReadCompletion completion);
    void leave(std::uint32_t index);
    void finish_read(std::uint32_t index, int error);
    bool cancel_running(Clock::time_point deadline);
    void close_late_opens();

    EventFd event_;
    std::unique_ptr<Ring> ring_;
    OperationTable operations_;
    std::deque<std::uint32_t> ready_;  // to be handed to the ring
    std::deque<Entry> unsubmitted_;
    std::vector<Answer> answers_;       // scratch of reap()
    std::vector<ReadCompletion> done_;  // finished, not yet reaped
    unsigned in_ring_ = 0;              // entries handed out whose answer has not come
    std::size_t in_flight_ = 0;

    UnsafeFiles unsafe_;
    HungMounts hung_;
    ReaderOptions options_;
    std::unique_ptr<ThreadReader> threads_;
};

}  // namespace sl
