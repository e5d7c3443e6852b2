#include "daemon/assemble/assembler.h"

#ifdef SL_TEST_HOOKS
#include <unistd.h>
#endif

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "shm/wake.h"

namespace sl {

namespace {

std::uint64_t now_ns() {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

}  // namespace

void write_row(const RowJob& job) {
#ifdef SL_TEST_HOOKS
    static const char* delay = std::getenv("SPEEDYLOADER_TEST_ROW_DELAY_US");
    if (delay != nullptr) ::usleep(static_cast<useconds_t>(std::strtoul(delay, nullptr, 10)));
#endif
    if (job.copy.plan != nullptr) {
        copy_row(job.sample, job.copy);
    } else if (job.sample != nullptr) {
        collate_row(job.sample, *job.table, job.target);
    } else {
        std::memset(job.target.row, 0, row_bytes(job.target));
    }
    if (job.fields.label != nullptr) *job.fields.label = job.label;
    *job.fields.sample_id = job.info.sample_id;
    *job.fields.valid = static_cast<std::uint8_t>(job.info.valid);
    *job.fields.info = job.info;
    if (job.fields.crop_box != nullptr) std::memcpy(job.fields.crop_box, job.crop_box, sizeof job.crop_box);
    if (job.fields.flip != nullptr) *job.fields.flip = job.flip;
}

Result<std::unique_ptr<Assembler>> Assembler::start(unsigned threads) {
    auto event = make_event_fd();
    if (!event) return std::unexpected(event.error());
    std::unique_ptr<Assembler> assembler(new Assembler);
    assembler->done_event_ = std::move(*event);
    for (unsigned i = 0; i < threads; ++i) {
        assembler->threads_.emplace_back(
            [raw = assembler.get(), i] { raw->run(static_cast<std::uint16_t>(i)); });
    }
    return assembler;
}

Assembler::~Assembler() {
    flush();
    {
        std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    work_.notify_all();
    for (std::thread& thread : threads_)
        thread.join();
}

void Assembler::flush() {
    if (pending_.empty()) return;
    bool several = pending_.size() > 1;
    {
        std::lock_guard lock(mutex_);  // ROWS: jobs and the pixels they point to
        queue_.insert(queue_.end(), pending_.begin(), pending_.end());
    }
    pending_.clear();
    if (several) {
        work_.notify_all();
    } else {
        work_.notify_one();
    }
}

void Assembler::reap(std::vector<RowDone>& rows) {
    quiet(done_event_.get());
    std::lock_guard lock(mutex_);  // ROWS: they are written
    rows.insert(rows.end(), done_.begin(), done_.end());
    done_.clear();
}

void Assembler::run(std::uint16_t thread) {
    std::unique_lock lock(mutex_);
    while (true) {
        work_.wait(lock, [this] { return stopping_ || next_ < queue_.size(); });
        if (next_ == queue_.size()) return;
        RowJob job = queue_[next_++];
        if (next_ == queue_.size()) {
            queue_.clear();
            next_ = 0;
        }
        lock.unlock();
        RowDone done{job.tag, now_ns(), 0, thread};
        write_row(job);
        done.end_ns = now_ns();
        lock.lock();
        done_.push_back(done);
        // One ring for a run of rows: the conductor takes them all at once.
        if (done_.size() == 1) ring(done_event_.get());
    }
}

}  // namespace sl
