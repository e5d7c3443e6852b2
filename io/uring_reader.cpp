// See uring_reader.h: requests and their answers. The way into the kernel is in uring_submit.cpp.
#include "io/uring_reader.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "io/plain_calls.h"
#include "io/test_hooks.h"

namespace sl {

Result<std::unique_ptr<UringReader>> UringReader::create(const ReaderOptions& options) {
    auto event = EventFd::create();
    if (!event) return std::unexpected(std::move(event.error()));
    auto ring = Ring::create(options.entries, options.registered, event->get());
    if (!ring) return std::unexpected(std::move(ring.error()));
    return std::unique_ptr<UringReader>(new UringReader(std::move(*event), std::move(*ring), options));
}

UringReader::UringReader(EventFd event, std::unique_ptr<Ring> ring, const ReaderOptions& options)
    : event_(std::move(event)), ring_(std::move(ring)), options_(options) {}

UringReader::~UringReader() {
    while (!finish(std::chrono::hours(1))) {
    }
    for (const auto& completion : done_) {
        if (completion.is_open && completion.fd >= 0) ::close(completion.fd);
    }
}

bool UringReader::finish(std::chrono::milliseconds grace) {
    auto deadline = Clock::now() + grace;
    withdraw_entries();
    for (std::uint32_t index : ready_)
        operations_[index].active = false;
    ready_.clear();
    bool ended = cancel_running(deadline);
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    return (!threads_ || threads_->finish(std::max(left, std::chrono::milliseconds(0)))) && ended;
}

// --- requests ----------------------------------------------------------------------------------------------

// A mount with too many calls that never returned gets no more of them.
bool UringReader::refuse(const Mount& mount, std::uint64_t tag, bool is_open) {
    if (!hung_.out_of_service(mount.key())) return false;
    ReadCompletion completion;
    completion.tag = tag;
    completion.mount = mount;
    completion.is_open = is_open;
    completion.error = ETIMEDOUT;
    done_.push_back(completion);
    return true;
}

void UringReader::open(const OpenRequest& request) {
    ++in_flight_;
    if (request.mount.may_hang || request.reach) {
        if (ThreadReader* them = threads()) return them->open(request);
    }
    if (refuse(request.mount, request.tag, true)) return;
    std::uint32_t index = operations_.add();
    operations_[index].is_open = true;
    operations_[index].path = request.path;
    operations_[index].reach = request.reach;
    operations_[index].request.tag = request.tag;
    operations_[index].request.mount = request.mount;
    operations_[index].budget = RetryBudget(options_.retry_for);
    ready_.push_back(index);
}

void UringReader::read(const ReadRequest& request) {
    ++in_flight_;
    if (request.mount.may_hang || unsafe_.contains(request.fd)) {
        if (ThreadReader* them = threads()) return them->read(request);
    }
    if (refuse(request.mount, request.tag, false)) return;
    std::uint32_t index = operations_.add();
    operations_[index].request = request;
    operations_[index].budget = RetryBudget(options_.retry_for);
    ready_.push_back(index);
}

void UringReader::close(int fd, const Mount& mount) {
    if (mount.may_hang || unsafe_.contains(fd)) {
        if (ThreadReader* them = threads()) return them->close(fd, mount);
    }
    ::close(fd);
}

ThreadReader* UringReader::threads() {
    if (!threads_) {
        if (auto event = event_.duplicate()) threads_ = ThreadReader::create(options_, std::move(*event));
    }
    return threads_.get();
}

void UringReader::give_up(Clock::time_point begun_before, std::vector<std::uint64_t>& tags) {
    for (std::uint32_t index = 0; index < operations_.size(); ++index) {
        Operation& operation = operations_[index];
        if (!operation.active || operation.given_up || !operation.began) continue;
        if (*operation.began >= begun_before) continue;
        operation.given_up = true;
        hung_.add(operation.request.mount.key());
        tags.push_back(operation.request.tag);
    }
    if (threads_) threads_->give_up(begun_before, tags);
}

std::size_t UringReader::hung() const {
    return hung_.total() + (threads_ ? threads_->hung() : 0);
}

std::string UringReader::description() const {
    if (!threads_) return ring_->description();
    return ring_->description() + ", and " + std::to_string(threads_->thread_count()) +
           " threads for each user's files on each mount that may hang";
}

// --- and back ----------------------------------------------------------------------------------------------

std::size_t UringReader::reap(std::vector<ReadCompletion>& out) {
    event_.drain();  // before looking: an answer that comes later signals again
    answers_.clear();
    take_answers(answers_);
    test_hooks::reorder(answers_);
    for (const Answer& answer : answers_)
        on_answer(answer);
    if (threads_) take_from_threads();
    pump();  // the rest of short reads, and what waited for a place in the ring
    std::size_t count = done_.size();
    out.insert(out.end(), done_.begin(), done_.end());
    done_.clear();
    in_flight_ -= count;
    return count;
}

// Whom they opened a file for may have it read by io_uring.
void UringReader::take_from_threads() {
    const std::size_t before = done_.size();
    threads_->take(done_);
    for (const ReadCompletion& completion : std::span(done_).subspan(before)) {
        if (completion.is_open && completion.fd >= 0)
            unsafe_.opened_elsewhere(completion.fd, completion.blocking_only);
    }
}

void UringReader::take_answers(std::vector<Answer>& answers) {
    constexpr unsigned kBatch = 64;
    io_uring_cqe* batch[kBatch];
    while (unsigned count = ::io_uring_peek_batch_cqe(ring_->get(), batch, kBatch)) {
        for (unsigned i = 0; i < count; ++i)
            answers.push_back({batch[i]->user_data, batch[i]->res});
        ::io_uring_cq_advance(ring_->get(), count);
        in_ring_ -= count;
    }
}

void UringReader::on_answer(const Answer& answer) {
    Operation* operation = operations_.find(answer.tag);
    if (operation == nullptr) return;
    auto index = static_cast<std::uint32_t>(answer.tag);
    if (operation->backing_off) {
        operation->backing_off = false;
        ready_.push_back(index);
    } else if (!operation->is_open) {
        on_read(index, test_hooks::read_result(answer.result));
    } else if (answer.result >= 0 || !back_off(index, -answer.result)) {
        finish_open_of(index, finish_open(operation->request.tag, answer.result));
    }
}

void UringReader::on_read(std::uint32_t index, std::int64_t result) {
    Operation& operation = operations_[index];
    if (result < 0) {
        int error = static_cast<int>(-result);
        if (!back_off(index, error)) finish_read(index, error);
        return;
    }
    operation.done += static_cast<std::uint64_t>(result);
    operation.budget.refill();
    if (result == 0 || operation.done == operation.request.length) {
        finish_read(index, 0);
    } else {
        ready_.push_front(index);  // begun files first: their buffers are held already
    }
}

// Waits in the kernel's timer, not here; false when the error is final.
bool UringReader::back_off(std::uint32_t index, int error) {
    Operation& operation = operations_[index];
    auto delay = operation.budget.next(error);
    if (!delay) return false;
    operation.delay.tv_sec = 0;
    operation.delay.tv_nsec = std::chrono::nanoseconds(*delay).count();
    operation.backing_off = true;
    ready_.push_back(index);
    return true;
}

void UringReader::finish_read(std::uint32_t index, int error) {
    ReadCompletion completion;
    completion.tag = operations_[index].request.tag;
    completion.error = error;
    completion.bytes = operations_[index].done;
    finish(index, completion);
}

void UringReader::finish_open_of(std::uint32_t index, const Opened& opened) {
    if (opened.completion.error == 0) unsafe_.opened(opened.completion.fd, opened.device);
    finish(index, opened.completion);
}

void UringReader::finish(std::uint32_t index, ReadCompletion completion) {
    completion.mount = operations_[index].request.mount;
    done_.push_back(completion);
    leave(index);
}

void UringReader::leave(std::uint32_t index) {
    if (operations_[index].given_up) hung_.remove(operations_[index].request.mount.key());
    operations_.release(index);
}

}  // namespace sl
