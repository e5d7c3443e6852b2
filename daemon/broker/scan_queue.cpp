#include "daemon/broker/scan_queue.h"

#include "daemon/broker/picture_size.h"
#include "daemon/plan/draws.h"
#include "shm/wake.h"

namespace sl {

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
    for (auto& [id, entry] : running_)
        entry.first.join();
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

void ScanQueue::scan(const Spec& spec, Done done) {
    std::uint64_t id = next_id_++;
    std::thread thread([this, id, spec] {
        Found found = scan_now(spec);
        std::lock_guard lock(mutex_);
        answers_.push_back({id, std::move(found)});
        ring(event_.get());
    });
    running_.emplace(id, std::pair(std::move(thread), std::move(done)));
}

void ScanQueue::deliver() {
    quiet(event_.get());
    std::vector<Answer> answers;
    {
        std::lock_guard lock(mutex_);
        answers.swap(answers_);
    }
    for (Answer& answer : answers) {
        auto node = running_.extract(answer.id);
        node.mapped().first.join();
        node.mapped().second(std::move(answer.found));
    }
}

}  // namespace sl
