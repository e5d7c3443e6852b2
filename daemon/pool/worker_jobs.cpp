// What workers do between start and death: they hear of streams, are given jobs and answer them.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "daemon/pool/worker_pool.h"
#include "shm/fault.h"

namespace sl {

namespace {

using std::chrono::milliseconds;

constexpr std::size_t kNobody = ~std::size_t{0};
// One running, one at hand so that the worker need not sleep between.
constexpr std::size_t kJobsPerWorker = 2;
constexpr std::size_t kHeadersPerWorker = SL_SHM_JOBS - kJobsPerWorker;
// Each takes two or three packets, and a socket buffer holds only so many: a worker that is told of 100
// streams at once, or of one after another while it is at a long job, must not miss any.
constexpr std::size_t kMaxUnanswered = 8;

}  // namespace

void WorkerPool::on_message(std::size_t index) {
    Entry& entry = entries_[index];
    if (!entry.worker) return;
    std::string why;
    switch (receive(entry.worker->socket(), *packet_, why, Carry::kNothing)) {
        case Received::kNothing:
            return;
        case Received::kClosed:
            if (takes_guests_) return on_guest_gone(index);
            loop_.remove(entry.worker->socket());  // its pidfd tells the rest
            return;
        case Received::kMalformed:
            return kill(entry, "sent " + why);
        case Received::kMessage:
            break;
    }
    if (packet_->carried) return kill(entry, "sent a descriptor that nobody asked for");
    std::uint32_t type = packet_->head().type;
    if (type == SL_MSG_HELLO && !entry.worker->greeted()) return on_hello(entry);
    if (const auto* error = packet_->as<sl_msg_error>();
        type == SL_MSG_ERROR && error != nullptr && !entry.worker->greeted()) {
        entry.complaint.assign(error->message, ::strnlen(error->message, sizeof error->message));
        return;  // it leaves by itself
    }
    const auto* message = packet_->as<sl_msg_stream>();
    if (type == SL_MSG_MAPPED && message != nullptr) return on_mapped(entry, message->stream_id);
    kill(entry, "sent an unexpected message " + std::to_string(type));
}

void WorkerPool::on_hello(Entry& entry) {
    if (auto greeted = entry.worker->greet(packet_->head().request, boot_id_, *input_); !greeted) {
        // One that has died since is no fault of its own; its pidfd tells.
        const int error = greeted.error().os_errno;
        if (error == EPIPE || error == ECONNRESET) return;
        return kill(entry, "cannot be greeted (" + greeted.error().message + ")");
    }
    trouble_.reset();
    welcome(entry);
}

void WorkerPool::welcome(Entry& entry) {
    entry.ticks = 0;
    for (const auto& [stream, about] : streams_)
        entry.to_announce.push_back(stream);
    send_news(entry);
    events_.capacity();
}

void WorkerPool::on_mapped(Entry& entry, std::uint64_t stream) {
    if (entry.announced.erase(stream) == 0) return kill(entry, "mapped a stream that it was not told of");
    SL_FAULT(daemon_worker_mapped);
    entry.ticks = 0;
    if (streams_.contains(stream)) {
        entry.worker->mapped(stream);
        auto is_ours = [&](const sl_shm_job& job) { return job.stream_id == stream; };
        for (const sl_shm_job& job : entry.waiting) {
            if (is_ours(job)) entry.worker->push(job);
        }
        std::erase_if(entry.waiting, is_ours);
    }
    send_news(entry);
}

void WorkerPool::add_stream(std::uint64_t stream, const Worker::About& about,
                            std::chrono::milliseconds limit) {
    streams_[stream] = {
        {about.about.begin(), about.about.end()}, about.rows, about.samples, about.max_pixels, limit};
    set_tick();
    for (Entry& entry : entries_) {
        if (!entry.worker || !entry.worker->greeted()) continue;
        entry.to_announce.push_back(stream);
        send_news(entry);
    }
}

void WorkerPool::remove_stream(std::uint64_t stream) {
    streams_.erase(stream);
    set_tick();
    for (Entry& entry : entries_) {
        if (!entry.worker || !entry.worker->greeted()) continue;
        if (std::erase(entry.to_announce, stream) != 0) continue;  // it has never heard of it
        entry.to_forget.push_back(stream);
        send_news(entry);
    }
}

// Sends what the worker's socket takes now; the rest follows when it answers, or with a tick.
void WorkerPool::send_news(Entry& entry) {
    while (!entry.to_forget.empty()) {
        if (!entry.worker->forget(entry.to_forget.front())) return;
        entry.to_forget.pop_front();
    }
    while (!entry.to_announce.empty() && entry.announced.size() < kMaxUnanswered) {
        std::uint64_t stream = entry.to_announce.front();
        const StreamEntry& about = streams_.at(stream);
        if (!entry.worker->announce(stream, {about.about, about.rows, about.samples, about.max_pixels}))
            return;
        entry.to_announce.pop_front();
        entry.announced.insert(stream);
    }
}

// A worker that nothing slow is in hand of.
bool WorkerPool::only_light(const Entry& entry) {
    if (!entry.worker || !entry.worker->greeted()) return false;
    return std::ranges::all_of(entry.lanes, [](const auto& job) { return job.second == Lane::kLight; });
}

bool WorkerPool::can_take(const Entry& entry) {
    return entry.lanes.size() < kJobsPerWorker && only_light(entry);
}

bool WorkerPool::can_look(const Entry& entry) {
    return entry.headers < kHeadersPerWorker && only_light(entry);
}

// Of workers that hold equally much, one that has mapped the stream.
std::size_t WorkerPool::least_loaded(std::uint64_t stream) const {
    auto load = [&](const Entry& entry) {
        return std::pair(entry.lanes.size(), !entry.worker->can_take(stream));
    };
    std::size_t best = kNobody;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
        if (!can_take(entries_[i])) continue;
        if (best == kNobody || load(entries_[i]) < load(entries_[best])) best = i;
    }
    return best;
}

bool WorkerPool::has_capacity() const {
    return std::ranges::any_of(entries_, can_take);
}

std::size_t WorkerPool::places() const {
    std::size_t sum = 0;
    for (const Entry& entry : entries_)
        sum += can_take(entry) ? kJobsPerWorker - entry.lanes.size() : 0;
    return sum;
}

bool WorkerPool::can_look() const {
    return std::ranges::any_of(entries_, [](const Entry& entry) { return can_look(entry); });
}

void WorkerPool::give_header(const sl_shm_job& job) {
    Entry* best = nullptr;
    for (Entry& entry : entries_) {
        if (!can_look(entry)) continue;
        if (best == nullptr || entry.lanes.size() + entry.headers < best->lanes.size() + best->headers)
            best = &entry;
    }
    if (best->lanes.empty() && best->headers == 0) best->ticks = 0;
    ++best->headers;
    best->worker->push(job);
}

bool WorkerPool::busy() const {
    return std::ranges::any_of(entries_, [](const Entry& entry) { return !entry.lanes.empty(); });
}

void WorkerPool::give(const sl_shm_job& job, Lane lane) {
    Entry& entry = entries_[least_loaded(job.stream_id)];
    if (entry.lanes.empty()) entry.ticks = 0;
    entry.lanes[job.tag] = lane;
    const milliseconds limit = streams_.at(job.stream_id).limit;
    if (limit.count() > 0) entry.limits[job.tag] = static_cast<std::uint32_t>(limit / tick_length_) + 1;
    if (entry.worker->can_take(job.stream_id)) return entry.worker->push(job);
    entry.waiting.push_back(job);
    // What is needed now is announced before what may be needed some time.
    if (std::erase(entry.to_announce, job.stream_id) != 0) entry.to_announce.push_front(job.stream_id);
    send_news(entry);
}

bool WorkerPool::reap_one(Entry& entry) {
    sl_shm_completion completion;
    if (!entry.worker->pop(completion)) {
        if (entry.worker->broken() && !entry.at_fault) kill(entry, "garbled its ring");
        return false;
    }
    early_deaths_ = 0;
    entry.ticks = 0;
    entry.limits.erase(completion.tag);
    if (entry.lanes.erase(completion.tag) == 0) {
        --entry.headers;
        events_.looked(completion);
    } else {
        ++entry.decodes;
        events_.completed(completion, static_cast<std::size_t>(&entry - entries_.data()));
    }
    return true;
}

bool WorkerPool::reap() {
    bool any = false;
    for (Entry& entry : entries_) {
        while (entry.worker && reap_one(entry))
            any = true;
    }
    return any;
}

void WorkerPool::flush() {
    for (Entry& entry : entries_) {
        if (entry.worker) entry.worker->flush();
    }
}

// Where no worker can take a job a header's answer can wait: each of them answers a decode first.
void WorkerPool::set_sleeping(bool sleeping) {
    const std::uint32_t how = !sleeping ? 0 : has_capacity() ? SL_SHM_SLEEPS_LIGHTLY : SL_SHM_SLEEPS;
    for (Entry& entry : entries_) {
        if (entry.worker) entry.worker->set_sleeping(how);
    }
}

}  // namespace sl
