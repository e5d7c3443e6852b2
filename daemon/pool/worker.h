// One worker process, as the daemon sees it: its process, its socket, its channel, the jobs it holds.
//
// The daemon has started it, or it is a guest: a process of a client's that attached by itself.
// Owned by the worker pool, on the conductor thread. The process decodes foreign bytes and may die or lie at
// any moment: everything that comes back is copied once and checked, and a worker that garbles its rings is
// killed like one that crashed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "shm/segment.h"
#include "shm/socket.h"
#include "shm/spsc.h"

namespace sl {

// How the daemon's own workers are started.
struct WorkerProgram {
    std::string path;
    bool sandbox = true;

    // Not explicit: a path alone is a sandboxed worker.
    WorkerProgram(std::string at = {}, bool in_sandbox = true) : path(std::move(at)), sandbox(in_sandbox) {}
    WorkerProgram(const char* at) : path(at) {}
};

class Worker {
  public:
    // Starts `program` with its socket as descriptor 3.
    static Result<Worker> start(const WorkerProgram& program);
    // A process that attached by itself; takes the descriptors unless it fails.
    static Result<Worker> adopt(UniqueFd& socket, UniqueFd& pidfd, pid_t pid);

    Worker(Worker&&) = default;
    Worker& operator=(Worker&&) = default;

    // Answers its HELLO and equips it.
    Result<void> greet(std::uint32_t request, std::uint64_t boot_id, const Segment& input);
    // Sends channel, wake-up and input segment; a guest has no input.
    Result<void> equip(std::uint32_t request, const Segment* input);
    // What a worker must know of a stream.
    struct About {
        std::span<const std::byte> about;  // its pipeline, or how its items lie
        const Segment* rows = nullptr;     // its batches, if it is a guest that writes there
        const Segment* samples = nullptr;
        std::uint64_t max_pixels = 0;  // of a picture that a worker of the daemon's decodes for it
    };
    // Announces a stream; the worker answers MAPPED when it can take the stream's jobs. An error (its socket
    // is full) changes nothing: announce it again later.
    Result<void> announce(std::uint64_t stream, const About& about);
    // Tells it to unmap a stream that has been announced; an error as above.
    Result<void> forget(std::uint64_t stream);

    [[nodiscard]] bool can_take(std::uint64_t stream) const { return mapped_.contains(stream); }
    void mapped(std::uint64_t stream) { mapped_.insert(stream); }

    // Puts a job into the ring; flush() wakes the worker if it sleeps.
    void push(const sl_shm_job& job);
    void flush();
    // Takes one completion. false: none, or a lie (see broken()).
    bool pop(sl_shm_completion& completion);
    [[nodiscard]] bool broken() const { return broken_ || completions_.broken(); }
    // SLEEP pair: the conductor is about to wait (SL_SHM_SLEEPS...), or has woken (0).
    void set_sleeping(std::uint32_t how);

    void kill();
    // Kills it and takes its exit status; for one that was started and whose end nobody is going to notice.
    void end();
    [[nodiscard]] pid_t pid() const { return pid_; }
    [[nodiscard]] int pidfd() const { return pidfd_.get(); }
    [[nodiscard]] int socket() const { return socket_.get(); }
    [[nodiscard]] int wake_fd() const { return wake_.get(); }
    [[nodiscard]] bool greeted() const { return greeted_; }
    // Tags of jobs given and not yet answered, oldest first; the oldest is the one being worked on.
    [[nodiscard]] const std::deque<std::uint64_t>& held() const { return held_; }
    [[nodiscard]] std::uint64_t completed() const { return completed_; }

  private:
    Worker() = default;
    Result<void> make_channel();
    void allow_pixels(std::uint64_t max_pixels);
    Result<void> send_segment(std::uint64_t stream, std::uint32_t kind, const Segment& segment);
    void call();
    void told();
    [[nodiscard]] sl_shm_worker_channel* channel() const {
        return reinterpret_cast<sl_shm_worker_channel*>(channel_.data());
    }

    pid_t pid_ = -1;
    UniqueFd pidfd_;
    UniqueFd socket_;
    UniqueFd wake_;
    Segment channel_;
    JobProducer jobs_;
    CompletionConsumer completions_;
    std::set<std::uint64_t> mapped_;
    std::deque<std::uint64_t> held_;
    std::uint64_t completed_ = 0;
    bool greeted_ = false;
    bool pushed_ = false;
    std::uint64_t max_pixels_ = 0;  // that its memory allows; 0: it has no limit of ours
    std::uint32_t calls_ = 0;
    std::uint32_t messages_ = 0;
    bool broken_ = false;
};

}  // namespace sl
