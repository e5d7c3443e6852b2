// The way into the kernel of uring_reader.h: read from pump(); and at the end, out of it again.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "io/plain_calls.h"
#include "io/test_hooks.h"
#include "io/uring_reader.h"

namespace sl {

namespace {

// Beyond this the copy out of the page cache is given to the kernel's own threads; the conductor goes on.
constexpr std::uint64_t kInlineBytes = std::uint64_t{1} << 20;

}  // namespace

void UringReader::flush() {
    if (threads_) threads_->flush();
    pump();
    if (!done_.empty()) event_.signal();
}

// Hands over all that is ready, until the ring is full or the kernel takes no more. Whatever is left then has
// operations in flight before it, whose answers bring us back here through reap().
void UringReader::pump() {
    while (true) {
        fill_ring();
        if (unsubmitted_.empty()) return;
        int sent = submit();
        if (sent > 0) {
            unsubmitted_.erase(unsubmitted_.begin(), unsubmitted_.begin() + sent);
            continue;
        }
        if (sent == -EINTR) continue;
        if (in_ring_ > unsubmitted_.size()) return;
        // Refused (EAGAIN, EBUSY) with nothing in flight: no answer would ever wake us. One operation goes to
        // the threads, then the ring is tried again.
        withdraw_entries();
        if (ready_.empty()) return;
        std::uint32_t index = ready_.front();
        ready_.pop_front();
        run_elsewhere(index);
    }
}

void UringReader::fill_ring() {
    while (!ready_.empty() && in_ring_ < ring_->capacity()) {
        std::uint32_t index = ready_.front();
        const Operation& operation = operations_[index];
        if (!operation.is_open && (operation.request.length == 0 || !valid_range(operation.request))) {
            ready_.pop_front();
            finish_read(index, valid_range(operation.request) ? 0 : EINVAL);
            continue;
        }
        // There was no thread when it came.
        if (operation.is_open ? operation.reach != nullptr : unsafe_.contains(operation.request.fd)) {
            ready_.pop_front();
            run_elsewhere(index);
            continue;
        }
        io_uring_sqe* sqe = ::io_uring_get_sqe(ring_->get());
        if (sqe == nullptr) return;
        ready_.pop_front();
        prepare(sqe, index);
        unsubmitted_.push_back({sqe, index, false});
        ++in_ring_;
    }
}

void UringReader::prepare(io_uring_sqe* sqe, std::uint32_t index) {
    Operation& operation = operations_[index];
    if (!operation.began) operation.began = Clock::now();
    if (operation.backing_off) {
        ::io_uring_prep_timeout(sqe, &operation.delay, 0, 0);
    } else if (operation.is_open) {
        ::io_uring_prep_openat(sqe, AT_FDCWD, operation.path.c_str(), kOpenFlags, 0);
    } else {
        prepare_read(sqe, operation);
    }
    ::io_uring_sqe_set_data64(sqe, operations_.tag_of(index));
}

void UringReader::prepare_read(io_uring_sqe* sqe, const Operation& operation) const {
    const ReadRequest& request = operation.request;
    std::byte* destination = request.destination + operation.done;
    std::uint64_t wanted = std::min(request.length - operation.done, kMaxBytesPerCall);
    FixedPiece piece = ring_->fixed_piece(destination, wanted);
    auto bytes = static_cast<unsigned>(test_hooks::limit_read(piece.length));
    std::uint64_t offset = request.offset + operation.done;
    if (piece.buffer >= 0) {
        ::io_uring_prep_read_fixed(sqe, request.fd, destination, bytes, offset, piece.buffer);
    } else {
        ::io_uring_prep_read(sqe, request.fd, destination, bytes, offset);
    }
    if (bytes > kInlineBytes) ::io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
}

int UringReader::submit() {
    if (test_hooks::refuse_submission()) return -EBUSY;
    return ::io_uring_submit(ring_->get());
}

// Takes back what the kernel has not seen: the entries become no-ops, their operations ready again.
void UringReader::withdraw_entries() {
    for (auto entry = unsubmitted_.rbegin(); entry != unsubmitted_.rend(); ++entry) {
        if (entry->withdrawn) continue;
        entry->withdrawn = true;
        ::io_uring_prep_nop(entry->sqe);
        ::io_uring_sqe_set_data64(entry->sqe, OperationTable::kNobody);
        ready_.push_front(entry->operation);
    }
}

// On a thread, from its beginning; where none can be had by one plain call, which nobody repeats: the
// conductor does not sleep.
void UringReader::run_elsewhere(std::uint32_t index) {
    Operation& operation = operations_[index];
    const ReadRequest& request = operation.request;
    const OpenRequest opening{request.tag, operation.path.c_str(), request.mount, operation.reach};
    if (ThreadReader* them = threads()) {
        operation.is_open ? them->open(opening) : them->read(request);
        them->flush();
        leave(index);
    } else if (operation.is_open) {
        ReadCompletion completion = plain_open(opening, operation.budget).completion;
        if (completion.error == 0) unsafe_.opened_elsewhere(completion.fd, completion.blocking_only);
        finish(index, completion);
    } else {
        finish(index, plain_read(request, operation.done, operation.budget).completion);
    }
}

// Afterwards the kernel holds none of our entries, unless the deadline came first.
bool UringReader::cancel_running(Clock::time_point deadline) {
    std::uint32_t next = 0;
    while (in_ring_ > 0) {
        // Cancellations go out as places in the ring come free; each is answered like any other entry.
        while (next < operations_.size() && in_ring_ <= ring_->capacity()) {
            bool running = operations_[next].active;
            io_uring_sqe* sqe = running ? ::io_uring_get_sqe(ring_->get()) : nullptr;
            if (running && sqe == nullptr) break;
            if (running) {
                ::io_uring_prep_cancel64(sqe, operations_.tag_of(next), 0);
                ::io_uring_sqe_set_data64(sqe, OperationTable::kNobody);
                ++in_ring_;
            }
            ++next;
        }
        event_.drain();  // before looking: an answer that comes later signals again
        ::io_uring_submit(ring_->get());
        close_late_opens();
        if (in_ring_ == 0) break;
        auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
        if (left.count() <= 0) return false;
        pollfd answered = {event_.get(), POLLIN, 0};
        ::poll(&answered, 1, static_cast<int>(left.count()));
    }
    return true;
}

void UringReader::close_late_opens() {
    answers_.clear();
    take_answers(answers_);
    for (const Answer& answer : answers_) {
        Operation* operation = operations_.find(answer.tag);
        if (operation == nullptr) continue;
        if (operation->is_open && !operation->backing_off && answer.result >= 0) ::close(answer.result);
        operation->active = false;
    }
}

}  // namespace sl
