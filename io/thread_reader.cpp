// See thread_reader.h.
#include "io/thread_reader.h"

#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "io/plain_calls.h"
#include "io/test_hooks.h"

namespace sl {

Result<std::unique_ptr<ThreadReader>> ThreadReader::create(const ReaderOptions& options) {
    auto event = EventFd::create();
    if (!event) return std::unexpected(std::move(event.error()));
    return create(options.threads, std::move(*event));
}

Result<std::unique_ptr<ThreadReader>> ThreadReader::create(unsigned threads, EventFd event) {
    std::unique_ptr<ThreadReader> reader(new ThreadReader(std::move(event)));
    unsigned wanted = std::max(threads, 1U);
    try {
        while (reader->pool_.size() < wanted)
            reader->pool_.emplace_back([r = reader.get()] { r->work(); });
    } catch (const std::system_error& error) {
        // Fewer threads than asked for still read everything; description() tells how many there are.
        if (reader->pool_.empty()) {
            return std::unexpected(
                os_error(Status::kNoMemory, "cannot start a reader thread", error.code().value()));
        }
    }
    return reader;
}

ThreadReader::~ThreadReader() {
    {
        std::lock_guard lock(queue_mutex_);
        stopping_ = true;
        queue_.clear();
    }
    queue_filled_.notify_all();
    for (auto& thread : pool_)
        thread.join();
    for (const auto& completion : done_) {
        if (completion.is_open && completion.fd >= 0) ::close(completion.fd);
    }
}

void ThreadReader::open(const OpenRequest& request) {
    unflushed_.emplace_back(request);
    ++in_flight_;
}

void ThreadReader::read(const ReadRequest& request) {
    unflushed_.emplace_back(request);
    ++in_flight_;
}

void ThreadReader::flush() {
    if (unflushed_.empty()) return;
    {
        std::lock_guard lock(queue_mutex_);
        queue_.insert(queue_.end(), unflushed_.begin(), unflushed_.end());
    }
    bool several = unflushed_.size() > 1;
    unflushed_.clear();
    several ? queue_filled_.notify_all() : queue_filled_.notify_one();
}

std::size_t ThreadReader::reap(std::vector<ReadCompletion>& out) {
    event_.drain();
    return take(out);
}

std::size_t ThreadReader::take(std::vector<ReadCompletion>& out) {
    std::vector<ReadCompletion> finished;
    {
        std::lock_guard lock(done_mutex_);
        finished.swap(done_);
    }
    test_hooks::reorder(finished);
    out.insert(out.end(), finished.begin(), finished.end());
    in_flight_ -= finished.size();
    return finished.size();
}

std::string ThreadReader::description() const {
    return "threads: " + std::to_string(pool_.size()) + " threads, blocking reads, no registered memory";
}

void ThreadReader::work() {
    std::unique_lock lock(queue_mutex_);
    while (true) {
        queue_filled_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
        if (stopping_) return;
        Request request = queue_.front();
        queue_.pop_front();
        lock.unlock();
        if (const auto* opening = std::get_if<OpenRequest>(&request)) {
            publish(plain_open(*opening).completion);
        } else {
            publish(plain_read(*std::get_if<ReadRequest>(&request)));
        }
        lock.lock();
    }
}

void ThreadReader::publish(const ReadCompletion& completion) {
    bool first = false;
    {
        std::lock_guard lock(done_mutex_);
        first = done_.empty();
        done_.push_back(completion);
    }
    // Only the first of a batch wakes the conductor. The event is drained before a batch is taken, so a
    // signal that comes late makes one empty reap and is never lost.
    if (first) event_.signal();
}

}  // namespace sl
