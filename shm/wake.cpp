#include "shm/wake.h"

#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstddef>
#include <ctime>

namespace sl {

void futex_wait(const std::uint32_t* word, std::uint32_t expected, std::chrono::nanoseconds timeout) {
    auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
    timespec limit{};
    limit.tv_sec = seconds.count();
    limit.tv_nsec = (timeout - seconds).count();
    ::syscall(SYS_futex, word, FUTEX_WAIT, expected, &limit, nullptr, 0);
}

void futex_wake_all(const std::uint32_t* word) {
    ::syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

Result<Bell> make_bell() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
        return std::unexpected(os_error(Status::kInternal, "socketpair", errno));
    }
    return Bell{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void ring_bell(int ringer) {
    const std::byte one{1};
    [[maybe_unused]] ssize_t sent = ::send(ringer, &one, sizeof one, MSG_DONTWAIT | MSG_NOSIGNAL);
}

Result<UniqueFd> make_event_fd() {
    UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!fd) return std::unexpected(os_error(Status::kInternal, "eventfd", errno));
    return fd;
}

void ring(int event_fd) {
    const std::uint64_t one = 1;
    [[maybe_unused]] ssize_t written = ::write(event_fd, &one, sizeof one);
}

void quiet(int event_fd) {
    std::uint64_t count = 0;
    [[maybe_unused]] ssize_t taken = ::read(event_fd, &count, sizeof count);
}

}  // namespace sl
