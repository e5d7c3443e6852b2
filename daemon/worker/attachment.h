// A worker's ties to the daemon: its socket, its channel, the segments it may touch.
//
// Used by the job loop, on the process's only thread. Everything the worker can reach is what the daemon
// sent: input bytes read-only, the sample segments of the streams it serves, its own channel.
#pragma once

#include <map>
#include <memory>

#include "daemon/plan/pipeline.h"
#include "shm/segment.h"
#include "shm/socket.h"
#include "shm/spsc.h"

namespace sl {

class Attachment {
  public:
    struct StreamEntry {
        Pipeline pipeline;
        Mapping samples;
    };

    // Says HELLO on `socket` and waits for channel, wake-up and input segment.
    static Result<Attachment> attach(UniqueFd socket);

    // Waits for a job; control messages are handled on the way. An error means that the daemon has gone.
    Result<sl_shm_job> next_job();
    void complete(const sl_shm_completion& completion);
    // Of a header job: wakes the daemon only if it waits for headers.
    void complete_header(const sl_shm_completion& completion);

    [[nodiscard]] int socket() const { return socket_.get(); }

    // What a job refers to; empty spans for ranges that the daemon never gave.
    [[nodiscard]] const StreamEntry* stream(std::uint64_t id) const;
    [[nodiscard]] std::span<const std::byte> input(std::uint64_t offset, std::uint64_t bytes) const;
    [[nodiscard]] static std::span<std::byte> output(const StreamEntry& stream, std::uint64_t offset);

  private:
    Attachment() = default;
    [[nodiscard]] sl_shm_worker_channel* channel() const {
        return reinterpret_cast<sl_shm_worker_channel*>(channel_.data());
    }
    void push(const sl_shm_completion& completion, std::uint32_t rings_from);
    Result<void> say_hello();
    Result<void> read_messages();
    Result<void> handle();
    Result<void> on_segment(const sl_msg_segment& message);
    Result<void> on_pipeline(const sl_msg_pipeline& message);
    Result<void> wait_readable();

    UniqueFd socket_;
    UniqueFd wake_;
    Mapping channel_;
    Mapping input_;
    JobConsumer jobs_;
    CompletionProducer completions_;
    std::map<std::uint64_t, StreamEntry> streams_;
    std::map<std::uint64_t, Pipeline> announced_;  // pipelines whose samples segment is still to come
    std::uint32_t messages_seen_ = 0;
    std::unique_ptr<Packet> packet_ = std::make_unique<Packet>();
};

}  // namespace sl
