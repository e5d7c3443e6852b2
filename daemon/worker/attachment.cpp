#include "daemon/worker/attachment.h"

#include <poll.h>

#include <cstring>

#include "shm/fault.h"
#include "shm/wake.h"

namespace sl {

namespace {
// The daemon's end is noticed by the kernel (parent-death signal, socket); this only bounds each wait.
constexpr std::chrono::seconds kLongestSleep{1};

Error gone() {
    return {Status::kDisconnected, "the daemon has gone", 0};
}

bool inside(std::uint64_t offset, std::uint64_t bytes, std::uint64_t size) {
    return offset <= size && bytes <= size - offset;
}
}  // namespace

Result<Attachment> Attachment::attach(UniqueFd socket) {
    Attachment attachment;
    attachment.socket_ = std::move(socket);
    if (auto said = attachment.say_hello(); !said) return std::unexpected(said.error());
    SL_FAULT(worker_hello_said);
    while (attachment.input_.data() == nullptr || attachment.channel_.data() == nullptr ||
           !attachment.wake_) {
        if (auto ready = attachment.wait_readable(); !ready) return std::unexpected(ready.error());
        if (auto read = attachment.read_messages(); !read) return std::unexpected(read.error());
    }
    auto* shared = attachment.channel();
    attachment.jobs_ = JobConsumer(shared->jobs, &shared->job_tail, &shared->job_head);
    attachment.completions_ =
        CompletionProducer(shared->completions, &shared->completion_tail, &shared->completion_head);
    return attachment;
}

Result<void> Attachment::say_hello() {
    auto hello = make_message<sl_msg_hello>(SL_MSG_HELLO, 1);
    hello.role = SL_ROLE_WORKER;
    copy_text(hello.program, "speedyloader-worker");
    return send_struct(socket_.get(), hello);
}

Result<void> Attachment::wait_readable() {
    pollfd entry{socket_.get(), POLLIN, 0};
    while (::poll(&entry, 1, -1) < 0) {
        if (errno != EINTR) return std::unexpected(gone());
    }
    return {};
}

Result<void> Attachment::read_messages() {
    while (true) {
        std::string why;
        switch (receive(socket_.get(), *packet_, why, Carry::kDescriptor)) {
            case Received::kNothing:
                return {};
            case Received::kClosed:
                return std::unexpected(gone());
            case Received::kMalformed:
                return fail(Status::kProtocol, why);
            case Received::kMessage:
                if (auto handled = handle(); !handled) return handled;
        }
    }
}

Result<void> Attachment::handle() {
    switch (packet_->head().type) {
        case SL_MSG_HELLO_REPLY:
            return {};
        case SL_MSG_SEGMENT:
            if (const auto* message = packet_->as<sl_msg_segment>()) return on_segment(*message);
            break;
        case SL_MSG_PIPELINE:
            if (const auto* message = packet_->as<sl_msg_pipeline>()) return on_pipeline(*message);
            break;
        case SL_MSG_FORGET:
            if (const auto* message = packet_->as<sl_msg_stream>()) {
                streams_.erase(message->stream_id);
                return {};
            }
            break;
        default:
            break;
    }
    return fail(Status::kProtocol, "unexpected message " + std::to_string(packet_->head().type));
}

Result<void> Attachment::on_pipeline(const sl_msg_pipeline& message) {
    auto tail = packet_->tail<sl_msg_pipeline>();
    if (message.pipeline_bytes != sizeof(Pipeline) || tail.size() != sizeof(Pipeline)) {
        return fail(Status::kVersion, "daemon and worker are of different builds");
    }
    std::memcpy(&announced_[message.stream_id], tail.data(), sizeof(Pipeline));
    return {};
}

Result<void> Attachment::on_segment(const sl_msg_segment& message) {
    if (message.kind == SL_SEGMENT_WAKE) {
        wake_ = std::move(packet_->fd);
        return {};
    }
    Access access = message.kind == SL_SEGMENT_INPUT ? Access::kReadOnly : Access::kReadWrite;
    auto mapping = Mapping::map(packet_->fd.get(), message.bytes, access);
    if (!mapping) return std::unexpected(mapping.error());
    switch (message.kind) {
        case SL_SEGMENT_INPUT:
            input_ = std::move(*mapping);
            return {};
        case SL_SEGMENT_CHANNEL:
            channel_ = std::move(*mapping);
            return {};
        case SL_SEGMENT_SAMPLES: {
            auto announced = announced_.extract(message.stream_id);
            if (announced.empty()) break;
            streams_[message.stream_id] = {announced.mapped(), std::move(*mapping)};
            SL_FAULT(worker_stream_mapped);
            auto reply = make_message<sl_msg_stream>(SL_MSG_MAPPED, 0);
            reply.stream_id = message.stream_id;
            auto sent = send_struct(socket_.get(), reply);
            SL_FAULT(worker_mapped_said);
            return sent;
        }
        default:
            break;
    }
    return fail(Status::kProtocol, "unexpected segment " + std::to_string(message.kind));
}

Result<sl_shm_job> Attachment::next_job() {
    auto* shared = channel();
    sl_shm_job job;
    while (true) {
        std::uint32_t calls = sl_shm_load_acquire_u32(&shared->calls);
        std::uint32_t messages = sl_shm_load_acquire_u32(&shared->messages);  // CONTROL
        if (messages != messages_seen_) {
            messages_seen_ = messages;
            if (auto read = read_messages(); !read) return std::unexpected(read.error());
        }
        if (jobs_.pop(job)) return job;
        sl_shm_store_seq_cst_u32(&shared->worker_sleeps, 1);
        sl_shm_fence_seq_cst();  // SLEEP pair: worker_sleeps before the look at calls
        if (sl_shm_load_acquire_u32(&shared->calls) == calls) {
            futex_wait(&shared->calls, calls, kLongestSleep);
            // Woken for nothing: also look for messages, and for the daemon's end, without being told.
            if (auto read = read_messages(); !read) return std::unexpected(read.error());
        }
        sl_shm_store_relaxed_u32(&shared->worker_sleeps, 0);
    }
}

void Attachment::complete(const sl_shm_completion& completion) {
    push(completion, SL_SHM_SLEEPS);
}

void Attachment::complete_header(const sl_shm_completion& completion) {
    push(completion, SL_SHM_SLEEPS_LIGHTLY);
}

void Attachment::push(const sl_shm_completion& completion, std::uint32_t rings_from) {
    completions_.push(completion);  // DONE: there is room, the daemon gives no more jobs than the ring holds
    SL_FAULT(worker_done_said);
    auto* shared = channel();
    sl_shm_fence_seq_cst();  // SLEEP pair: completion_tail before daemon_sleeps
    if (sl_shm_load_relaxed_u32(&shared->daemon_sleeps) >= rings_from) ring(wake_.get());
    SL_FAULT(worker_rang);
}

const Attachment::StreamEntry* Attachment::stream(std::uint64_t id) const {
    auto found = streams_.find(id);
    return found == streams_.end() ? nullptr : &found->second;
}

std::span<const std::byte> Attachment::input(std::uint64_t offset, std::uint64_t bytes) const {
    if (!inside(offset, bytes, input_.size())) return {};
    return {input_.data() + offset, bytes};
}

std::span<std::byte> Attachment::output(const StreamEntry& stream, std::uint64_t offset) {
    std::uint64_t bytes = stream.pipeline.sample_bytes();
    if (!inside(offset, bytes, stream.samples.size())) return {};
    return {stream.samples.data() + offset, bytes};
}

}  // namespace sl
