#include "daemon/broker/scan_queue.h"

#include <exception>
#include <system_error>

#include "daemon/broker/picture_size.h"
#include "daemon/plan/draws.h"
#include "shm/wake.h"

namespace sl {

namespace {
// Scans wait for directories, not for the processor; a few hide most of that.
constexpr std::size_t kThreads = 4;
}  // namespace

Result<std::unique_ptr<ScanQueue>> ScanQueue::create(EventLoop& loop, std::string worker_program) {
    std::unique_ptr<ScanQueue> queue(new ScanQueue(loop, std::move(worker_program)));
    auto event = make_event_fd();
    if (!event) return std::unexpected(event.error());
    queue->event_ = std::move(*event);
    auto added = loop.add(queue->event_.get(), [raw = queue.get()](std::uint32_t) { raw->deliver(); });
    if (!added) return std::unexpected(added.error());
    return queue;
}

ScanQueue::~ScanQueue() {
    loop_.remove(event_.get());
    for (Scan& scan : running_)
        scan.thread.join();
}

ScanQueue::Found ScanQueue::scan_now(Spec spec) const {
    auto dataset = Dataset::scan(spec);
    if (!dataset) return std::unexpected(std::move(dataset).error());
    if (!has_fixed_size(spec.pipeline)) {
        auto size = first_picture_size(worker_program_, **dataset);
        if (!size) return std::unexpected(std::move(size).error());
        spec.pipeline.width = size->width;
        spec.pipeline.height = size->height;
    }
    return Scanned{std::move(*dataset), std::move(spec)};
}

// The messages are short enough to need no memory.
ScanQueue::Found ScanQueue::guarded(const Spec& spec) const {
    try {
        return scan_now(spec);
    } catch (const std::bad_alloc&) {
        return fail(Status::kNoMemory, "out of memory");
    } catch (const std::exception&) {
        return fail(Status::kInternal, "scan failed");
    }
}

void ScanQueue::scan(const Spec& spec, std::weak_ptr<const void> asker, Done done) {
    Scan& added = waiting_.emplace_back();
    added.spec = spec;
    added.asker = std::move(asker);
    added.done = std::move(done);
    start_waiting();
}

void ScanQueue::start_waiting() {
    while (running_.size() < kThreads && !waiting_.empty()) {
        running_.splice(running_.end(), waiting_, waiting_.begin());
        Scan& scan = running_.back();
        if (scan.asker.expired()) {
            running_.pop_back();
            continue;
        }
        try {
            scan.thread = std::thread([this, &scan] {
                scan.found = guarded(scan.spec);
                scan.finished.store(true, std::memory_order_release);
                ring(event_.get());
            });
        } catch (const std::system_error& error) {
            Done done = std::move(scan.done);
            running_.pop_back();
            done(std::unexpected(
                os_error(Status::kNoMemory, "cannot start a thread for a scan", error.code().value())));
        }
    }
}

void ScanQueue::deliver() {
    quiet(event_.get());
    for (auto scan = running_.begin(); scan != running_.end();) {
        if (!scan->finished.load(std::memory_order_acquire)) {
            ++scan;
            continue;
        }
        scan->thread.join();
        if (!scan->asker.expired()) scan->done(std::move(*scan->found));
        scan = running_.erase(scan);
    }
    start_waiting();
}

}  // namespace sl
