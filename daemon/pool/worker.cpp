#include "daemon/pool/worker.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/plan/decode_memory.h"
#include "daemon/plan/pipeline.h"
#include "shm/fault.h"
#include "shm/wake.h"

extern char** environ;

namespace sl {

namespace {

constexpr int kWorkerSocket = 3;

Result<pid_t> spawn(const WorkerProgram& program, int socket) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, socket, kWorkerSocket);  // dup2 clears close-on-exec
    posix_spawn_file_actions_addclosefrom_np(&actions, kWorkerSocket + 1);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    char no_sandbox[] = "--no-sandbox";
    char* arguments[] = {const_cast<char*>(program.path.c_str()), program.sandbox ? nullptr : no_sandbox,
                         nullptr};
    pid_t pid = -1;
    int error = ::posix_spawn(&pid, program.path.c_str(), &actions, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0)
        return std::unexpected(os_error(Status::kInternal, "cannot start " + program.path, error));
    return pid;
}

}  // namespace

Result<Worker> Worker::start(const WorkerProgram& program) {
    Worker worker;
    int sockets[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
        return std::unexpected(os_error(Status::kInternal, "socketpair", errno));
    }
    worker.socket_.reset(sockets[0]);
    UniqueFd theirs(sockets[1]);
    if (theirs.get() == kWorkerSocket) {
        // dup2 onto itself would keep close-on-exec: move it out of the way.
        UniqueFd moved(::fcntl(theirs.get(), F_DUPFD_CLOEXEC, kWorkerSocket + 1));
        if (!moved) return std::unexpected(os_error(Status::kInternal, "fcntl F_DUPFD_CLOEXEC", errno));
        theirs = std::move(moved);
    }
    if (auto made = worker.make_channel(); !made) return std::unexpected(made.error());
    auto pid = spawn(program, theirs.get());
    if (!pid) return std::unexpected(pid.error());
    worker.pid_ = *pid;
    SL_FAULT_PASSED_ON();
    if (program.sandbox) worker.max_pixels_ = Pipeline{}.max_pixels;
    worker.pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, *pid, 0)));
    if (!worker.pidfd_) {
        Error error = os_error(Status::kInternal, "pidfd_open", errno);
        worker.end();  // nothing would ever tell of its death
        return std::unexpected(std::move(error));
    }
    return worker;
}

Result<Worker> Worker::adopt(UniqueFd& socket, UniqueFd& pidfd, pid_t pid) {
    Worker worker;
    if (auto made = worker.make_channel(); !made) return std::unexpected(made.error());
    worker.pid_ = pid;
    worker.socket_ = std::move(socket);
    worker.pidfd_ = std::move(pidfd);
    return worker;
}

Result<void> Worker::make_channel() {
    auto wake = make_event_fd();
    if (!wake) return std::unexpected(wake.error());
    wake_ = std::move(*wake);
    auto created = Segment::create("speedyloader-worker", sizeof(sl_shm_worker_channel));
    if (!created) return std::unexpected(created.error());
    if (auto sealed = created->seal_size(); !sealed) return sealed;
    channel_ = std::move(*created);
    auto* shared = channel();
    jobs_ = JobProducer(shared->jobs, &shared->job_tail, &shared->job_head);
    completions_ =
        CompletionConsumer(shared->completions, &shared->completion_tail, &shared->completion_head);
    return {};
}

Result<void> Worker::greet(std::uint32_t request, std::uint64_t boot_id, const Segment& input) {
    auto hello = make_message<sl_msg_hello_reply>(SL_MSG_HELLO_REPLY, request);
    hello.boot_id = boot_id;
    hello.daemon_pid = ::getpid();
    if (auto sent = send_struct(socket_.get(), hello); !sent) return sent;
    return equip(request, &input);
}

Result<void> Worker::equip(std::uint32_t request, const Segment* input) {
    UniqueFd input_fd;
    if (input != nullptr) {
        auto opened = input->read_only_fd();
        if (!opened) return std::unexpected(opened.error());
        input_fd = std::move(*opened);
    }
    struct {
        std::uint32_t kind;
        std::uint64_t bytes;
        int fd;
    } const segments[] = {{SL_SEGMENT_CHANNEL, channel_.size(), channel_.writable_fd()},
                          {SL_SEGMENT_WAKE, 0, wake_.get()},
                          {SL_SEGMENT_INPUT, input != nullptr ? input->size() : 0, input_fd.get()}};
    for (const auto& segment : segments) {
        if (segment.fd < 0) continue;
        auto message = make_message<sl_msg_segment>(SL_MSG_SEGMENT, request);
        message.kind = segment.kind;
        message.bytes = segment.bytes;
        if (auto sent = send_struct(socket_.get(), message, {}, segment.fd); !sent) return sent;
    }
    greeted_ = true;
    return {};
}

// A sandboxed worker has the memory that pictures of the usual limit take, and cannot raise it: its daemon
// can. It never gets less again, for decodes of the stream may be under way.
void Worker::allow_pixels(std::uint64_t max_pixels) {
    if (max_pixels_ == 0 || max_pixels <= max_pixels_) return;
    max_pixels_ = max_pixels;
    rlimit limit{};
    if (::prlimit(pid_, RLIMIT_DATA, nullptr, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
    limit.rlim_cur = std::min<rlim_t>(decode_memory(max_pixels), limit.rlim_max);
    ::prlimit(pid_, RLIMIT_DATA, &limit, nullptr);  // where it fails a decode says that memory is short
}

Result<void> Worker::announce(std::uint64_t stream, const About& about) {
    allow_pixels(about.max_pixels);
    auto message = make_message<sl_msg_pipeline>(SL_MSG_PIPELINE, 0);
    message.stream_id = stream;
    message.pipeline_bytes = static_cast<std::uint32_t>(about.about.size());
    auto sent = send_struct(socket_.get(), message, about.about);
    if (!sent) return sent;
    if (about.rows != nullptr) sent = send_segment(stream, SL_SEGMENT_ROWS, *about.rows);
    if (sent) sent = send_segment(stream, SL_SEGMENT_SAMPLES, *about.samples);
    SL_FAULT(daemon_worker_told);
    told();  // the first messages alone do no harm: the next announcement replaces them
    return sent;
}

Result<void> Worker::send_segment(std::uint64_t stream, std::uint32_t kind, const Segment& segment) {
    auto message = make_message<sl_msg_segment>(SL_MSG_SEGMENT, 0);
    message.stream_id = stream;
    message.kind = kind;
    message.bytes = segment.size();
    return send_struct(socket_.get(), message, {}, segment.writable_fd());
}

Result<void> Worker::forget(std::uint64_t stream) {
    mapped_.erase(stream);
    auto message = make_message<sl_msg_stream>(SL_MSG_FORGET, 0);
    message.stream_id = stream;
    if (auto sent = send_struct(socket_.get(), message); !sent) return sent;
    told();
    return {};
}

void Worker::push(const sl_shm_job& job) {
    jobs_.push(job);
    SL_FAULT(daemon_job_pushed);
    held_.push_back(job.tag);
    pushed_ = true;
}

void Worker::flush() {
    if (!std::exchange(pushed_, false)) return;
    call();
    SL_FAULT(daemon_worker_called);
}

void Worker::call() {
    sl_shm_store_release_u32(&channel()->calls, ++calls_);
    sl_shm_fence_seq_cst();  // SLEEP pair: calls before worker_sleeps
    if (sl_shm_load_relaxed_u32(&channel()->worker_sleeps) != 0) futex_wake_all(&channel()->calls);
}

void Worker::told() {
    sl_shm_store_release_u32(&channel()->messages, ++messages_);  // CONTROL
    call();
}

bool Worker::pop(sl_shm_completion& completion) {
    if (!completions_.pop(completion)) return false;
    completion.message[sizeof completion.message - 1] = '\0';
    auto found = std::ranges::find(held_, completion.tag);
    if (found == held_.end()) {
        broken_ = true;  // an answer to a job it does not hold
        return false;
    }
    held_.erase(found);
    ++completed_;
    return true;
}

void Worker::set_sleeping(std::uint32_t how) {
    if (how != 0) {
        sl_shm_store_seq_cst_u32(&channel()->daemon_sleeps, how);
        sl_shm_fence_seq_cst();  // SLEEP pair: daemon_sleeps before the look at completion_tail
    } else {
        sl_shm_store_relaxed_u32(&channel()->daemon_sleeps, 0);
    }
}

void Worker::kill() {
    ::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
}

void Worker::end() {
    ::kill(pid_, SIGKILL);  // its pid is its own until it has been waited for
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
}

}  // namespace sl
