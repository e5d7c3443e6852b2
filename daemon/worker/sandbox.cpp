// The filter is an allow-list: what is not named here is refused. See sandbox.h.
#include "daemon/worker/sandbox.h"

#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <string>

#include "daemon/plan/decode_memory.h"
#ifdef SL_SANITIZED
#include <sanitizer/common_interface_defs.h>
#endif

namespace sl {

namespace {

constexpr const char* kWhatToDo =
    "; decoders would run unconfined: allow seccomp filters to this process, or start the daemon with "
    "--no-sandbox "
    "([daemon] sandbox = false) if you trust every file";

// Standard streams, socket, wake-up, and a segment on its way into the address space; the rest is room for
// four more that a message may carry by mistake.
constexpr rlim_t kDescriptors = 16;

// No call here takes a path, a new descriptor's description, or another process.
constexpr int kAllowed[] = {
    // time and waiting
    SCMP_SYS(futex),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_getres),
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(nanosleep),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(time),
    SCMP_SYS(poll),
    SCMP_SYS(ppoll),
    SCMP_SYS(restart_syscall),
    // what it holds already: its socket, its wake-up, its standard streams
    SCMP_SYS(read),
    SCMP_SYS(write),
    SCMP_SYS(readv),
    SCMP_SYS(writev),
    SCMP_SYS(recvmsg),
    SCMP_SYS(sendmsg),
    SCMP_SYS(close),
    // memory; mapping and protecting have rules of their own below
    SCMP_SYS(munmap),
    SCMP_SYS(mremap),
    SCMP_SYS(madvise),
    SCMP_SYS(brk),
    // threads: libwebp and the HEIC and AVIF codecs start some
    SCMP_SYS(set_robust_list),
    SCMP_SYS(rseq),
    SCMP_SYS(sched_yield),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(getcpu),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
    // itself
    SCMP_SYS(getpid),
    SCMP_SYS(gettid),
    SCMP_SYS(getrandom),
    SCMP_SYS(getrusage),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(sysinfo),  // the C library's qsort asks how much memory there is
#ifdef SL_SANITIZED
    SCMP_SYS(pipe),
    SCMP_SYS(pipe2),  // UndefinedBehaviorSanitizer tries pointers in a pipe
    SCMP_SYS(tkill),
#endif
};

struct Release {
    void operator()(void* filter) const { ::seccomp_release(filter); }
};
using Filter = std::unique_ptr<void, Release>;

// Calls that are allowed for some arguments only.
int add_conditional(void* filter) {
    const std::uint64_t self = static_cast<std::uint64_t>(::getpid());
    int error = 0;
    const auto add = [&](std::uint32_t action, int call, std::initializer_list<scmp_arg_cmp> conditions) {
        if (error != 0) return;
        error = ::seccomp_rule_add_array(filter, action, call, static_cast<unsigned>(conditions.size()),
                                         std::data(conditions));
    };
    // No page ever becomes code.
    // New memory is private: what is shared does not count for RLIMIT_DATA.
    add(SCMP_ACT_ALLOW, SCMP_SYS(mmap),
        {{2, SCMP_CMP_MASKED_EQ, PROT_EXEC, 0},
         {3, SCMP_CMP_MASKED_EQ, MAP_TYPE | MAP_GROWSDOWN, MAP_PRIVATE}});
    add(SCMP_ACT_ALLOW, SCMP_SYS(mmap),
        {{2, SCMP_CMP_MASKED_EQ, PROT_EXEC, 0}, {3, SCMP_CMP_MASKED_EQ, MAP_ANONYMOUS | MAP_GROWSDOWN, 0}});
    add(SCMP_ACT_ALLOW, SCMP_SYS(mprotect), {{2, SCMP_CMP_MASKED_EQ, PROT_EXEC, 0}});
    // A thread is no process: it shares all there is, and has no name space of its own.
    constexpr std::uint64_t kThread = CLONE_VM | CLONE_SIGHAND | CLONE_THREAD;
    constexpr std::uint64_t kSpaces = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                                      CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWCGROUP | CLONE_PTRACE;
    add(SCMP_ACT_ALLOW, SCMP_SYS(clone), {{0, SCMP_CMP_MASKED_EQ, kThread | kSpaces, kThread}});
    // Its arguments lie in memory, where no filter can look; the C library then takes clone.
    add(SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), {});
    // abort(), and nobody else's end.
    add(SCMP_ACT_ALLOW, SCMP_SYS(tgkill), {{0, SCMP_CMP_EQ, self, 0}});
#ifdef SL_SANITIZED
    add(SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), {{0, SCMP_CMP_EQ, 0, 0}, {2, SCMP_CMP_EQ, 0, 0}});  // only asks
#endif
    return error;
}

int install_filter() {
    const Filter filter(::seccomp_init(SCMP_ACT_ERRNO(EPERM)));
    if (!filter) return -ENOMEM;
    // Calls of another architecture have other numbers; all threads are covered; the lookup is a tree.
    int error = ::seccomp_attr_set(filter.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    if (error == 0) error = ::seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_TSYNC, 1);
    if (error == 0) error = ::seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);
    for (const int call : kAllowed) {
        if (error == 0) error = ::seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, call, 0);
    }
    if (error == 0) error = add_conditional(filter.get());
    if (error == 0) error = ::seccomp_load(filter.get());
    return error;
}

Result<void> limit(__rlimit_resource resource, const char* name, rlim_t soft, rlim_t hard) {
    rlimit now{};
    ::getrlimit(resource, &now);
    const rlimit wanted{std::min(soft, now.rlim_max), std::min(hard, now.rlim_max)};
    if (::setrlimit(resource, &wanted) == 0) return {};
    return std::unexpected(os_error(Status::kInternal, std::string("the sandbox's limit of ") + name, errno));
}

}  // namespace

Result<void> close_sandbox(std::uint64_t max_pixels, bool raisable) {
    const rlim_t data = decode_memory(max_pixels);
    auto limited = limit(RLIMIT_CORE, "core files", 0, 0);
    if (limited) limited = limit(RLIMIT_NOFILE, "descriptors", kDescriptors, kDescriptors);
    if (limited) limited = limit(RLIMIT_MEMLOCK, "locked memory", 0, 0);
    if (limited) limited = limit(RLIMIT_MSGQUEUE, "message queues", 0, 0);
#ifdef SL_SANITIZED
    // Shadow memory takes terabytes, and a report may go to a file.
    static_cast<void>(data);
    static_cast<void>(raisable);
    __sanitizer_sandbox_arguments arguments{};
    __sanitizer_sandbox_on_notify(&arguments);
#else
    ::signal(SIGXFSZ, SIG_IGN);  // standard error may be a file: a lost line, not a death
    if (limited) limited = limit(RLIMIT_FSIZE, "file sizes", 0, 0);
    const rlim_t most = raisable ? decode_memory(kLargestMaxPixels) : data;
    if (limited) limited = limit(RLIMIT_DATA, "memory", data, most);
#endif
    if (!limited) return limited;
    // No new privileges: else a filter is root's alone to install.
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return std::unexpected(
            os_error(Status::kUnsupported, "PR_SET_NO_NEW_PRIVS", errno).because("the sandbox"));
    if (const int error = install_filter(); error != 0) {
        return fail(Status::kUnsupported,
                    std::string("the sandbox's system call filter cannot be installed: ") +
                        std::strerror(-error) + kWhatToDo);
    }
    return {};
}

}  // namespace sl
