// One function for each way out; see test_escapes.h. Each gives 0, or an errno.
#include "daemon/worker/test_escapes.h"

#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

namespace sl {

namespace {

constexpr std::size_t kPage = 4096;

// The answer of a system call as an errno.
int of(long result) {
    return result < 0 ? errno : 0;
}

// The same of one that ends in a child: the child leaves at once.
int of_child(long pid) {
    if (pid == 0) ::_exit(0);
    return of(pid);
}

std::string in_temporary(const char* name) {
    const char* folder = std::getenv("TMPDIR");
    return std::string(folder != nullptr ? folder : "/tmp") + "/" + name;
}

std::byte* page_of(const std::byte* address) {
    return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(address) & ~(kPage - 1));
}

int by_map(int protection) {
    void* page = ::mmap(nullptr, kPage, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return page == MAP_FAILED ? errno : of(::munmap(page, kPage));
}

int by_protect() {
    void* page = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return page == MAP_FAILED ? errno : of(::mprotect(page, kPage, PROT_READ | PROT_EXEC));
}

int by_openat2() {
    open_how how{};
    how.flags = O_RDONLY;
    return of(::syscall(SYS_openat2, AT_FDCWD, "/etc/passwd", &how, sizeof how));
}

int by_connect(const InHand& hand) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, "/dev/log");
    return of(::connect(hand.socket, reinterpret_cast<const sockaddr*>(&address), sizeof address));
}

int by_writev() {
    std::uint64_t word = 0;
    iovec mine{&word, sizeof word};
    return of(::process_vm_writev(::getppid(), &mine, 1, &mine, 1, 0));
}

int by_readv() {
    std::uint64_t word = 0;
    iovec mine{&word, sizeof word};
    return of(::process_vm_readv(::getppid(), &mine, 1, &mine, 1, 0));
}

int by_bpf() {
    bpf_attr attributes{};
    attributes.map_type = BPF_MAP_TYPE_ARRAY;
    attributes.key_size = attributes.value_size = attributes.max_entries = 4;
    return of(::syscall(SYS_bpf, BPF_MAP_CREATE, &attributes, sizeof attributes));
}

int by_limit(__rlimit_resource resource) {
    rlimit limit{};
    ::getrlimit(resource, &limit);
    limit.rlim_cur = limit.rlim_max = RLIM_INFINITY;
    return of(::setrlimit(resource, &limit));
}

int by_memory() {
    constexpr std::size_t kMuch = std::size_t{8} << 30;
    void* much =
        ::mmap(nullptr, kMuch, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return much == MAP_FAILED ? errno : of(::munmap(much, kMuch));
}

int by_execve() {
    char* nothing[] = {nullptr};
    return of(::syscall(SYS_execve, "/bin/true", nothing, nothing));
}

int by_thread() {
    pthread_t thread{};
    const int error = ::pthread_create(
        &thread, nullptr, [](void*) -> void* { return nullptr; }, nullptr);
    return error != 0 ? error : ::pthread_join(thread, nullptr);
}

// So many that nobody else could start one; they do nothing, for ever.
int by_threads() {
    constexpr int kMany = 200;
    for (int i = 0; i < kMany; ++i) {
        pthread_t thread{};
        const auto sleep = [](void*) -> void* {
            for (;;)
                ::pause();
        };
        if (const int error = ::pthread_create(&thread, nullptr, sleep, nullptr); error != 0) return error;
        ::pthread_detach(thread);
    }
    return 0;
}

// Writes where no write may go: the worker dies.
int by_store(const std::byte* where) {
    *const_cast<volatile std::byte*>(where) = std::byte{1};
    return 0;
}

// The segment's size is sealed: a longer map of it has nothing behind, and a touch is the worker's death.
int by_growing(std::span<std::byte> samples) {
    void* longer = ::mremap(samples.data(), samples.size(), samples.size() + kPage, MREMAP_MAYMOVE);
    return longer == MAP_FAILED ? errno : by_store(static_cast<std::byte*>(longer) + samples.size());
}

int attempt(std::string_view name, const InHand& hand) {
    struct stat found {};
    const int parent = ::getppid();
    if (name == "nothing") return 0;
    if (name == "thread") return by_thread();
    if (name == "threads") return by_threads();
    if (name == "open") return of(::syscall(SYS_open, "/etc/passwd", O_RDONLY));
    if (name == "openat") return of(::openat(AT_FDCWD, "/etc/passwd", O_RDONLY));
    if (name == "openat2") return by_openat2();
    if (name == "creat") return of(::syscall(SYS_creat, in_temporary("escaped").c_str(), 0600));
    if (name == "unlink") return of(::unlink(in_temporary("escaped").c_str()));
    if (name == "rename")
        return of(::rename(in_temporary("escaped").c_str(), in_temporary("escaped2").c_str()));
    if (name == "mkdir") return of(::mkdir(in_temporary("escaped-folder").c_str(), 0700));
    if (name == "stat") return of(::stat("/etc/passwd", &found));
    if (name == "chdir") return of(::chdir("/"));
    if (name == "socket") return of(::socket(AF_INET, SOCK_STREAM, 0));
    if (name == "socketpair") {
        int ends[2];
        return of(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    }
    if (name == "connect") return by_connect(hand);
    if (name == "fork") return of_child(::syscall(SYS_fork));
    if (name == "clone") return of_child(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
    if (name == "new_namespace") return of(::unshare(CLONE_NEWUSER));
    if (name == "execve") return by_execve();
    if (name == "ptrace") return of(::ptrace(PTRACE_SEIZE, parent, nullptr, nullptr));
    if (name == "process_vm_writev") return by_writev();
    if (name == "process_vm_readv") return by_readv();
    if (name == "kill") return of(::kill(parent, SIGURG));
    if (name == "tgkill") return of(::syscall(SYS_tgkill, parent, parent, SIGURG));
    if (name == "pidfd_open") return of(::syscall(SYS_pidfd_open, parent, 0));
    if (name == "exec_memory") return by_map(PROT_READ | PROT_EXEC);
    if (name == "protect_exec") return by_protect();
    if (name == "memfd_create") return of(::memfd_create("escaped", 0));
    if (name == "io_uring_setup") return of(::syscall(SYS_io_uring_setup, 4, nullptr));
    if (name == "bpf") return by_bpf();
    if (name == "userfaultfd") return of(::syscall(SYS_userfaultfd, 0));
    if (name == "perf_event_open") return of(::syscall(SYS_perf_event_open, nullptr, 0, -1, -1, 0));
    if (name == "prctl") return of(::prctl(PR_SET_PDEATHSIG, 0));
    if (name == "setrlimit_descriptors") return by_limit(RLIMIT_NOFILE);
    if (name == "setrlimit_memory") return by_limit(RLIMIT_DATA);
    if (name == "more_memory") return by_memory();
    if (name == "setuid") return of(::syscall(SYS_setuid, 0));
    if (name == "fcntl") return of(::fcntl(hand.socket, F_GETFL));
    if (name == "behind_samples") return by_growing(hand.samples);
    if (name == "protect_input")
        return of(::mprotect(page_of(hand.input.data()), kPage, PROT_READ | PROT_WRITE));
    if (name == "write_input") return by_store(hand.input.data());
    if (name == "write_code") return by_store(reinterpret_cast<const std::byte*>(&try_to_escape));
    return ENOSYS;
}

}  // namespace

std::optional<std::string> try_to_escape(const InHand& hand) {
    constexpr std::string_view kMark = "SL-TEST-TRY ";
    std::string_view text(reinterpret_cast<const char*>(hand.input.data()),
                          std::min<std::size_t>(hand.input.size(), 64));
    if (!text.starts_with(kMark)) return std::nullopt;
    text.remove_prefix(kMark.size());
    text = text.substr(0, text.find('\n'));
    const int error = attempt(text, hand);
    return std::string(text) + ": " + (error == 0 ? "done" : std::strerror(error));
}

}  // namespace sl
