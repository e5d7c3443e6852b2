// See event_fd.h.
#include "io/event_fd.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace sl {

Result<EventFd> EventFd::create() {
    int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return std::unexpected(os_error(Status::kIo, "cannot create an eventfd for the reader", errno));
    return EventFd(fd);
}

Result<EventFd> EventFd::duplicate() const {
    int fd = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return std::unexpected(os_error(Status::kIo, "cannot duplicate the reader's eventfd", errno));
    return EventFd(fd);
}

EventFd::EventFd(EventFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

EventFd::~EventFd() {
    if (fd_ >= 0) ::close(fd_);
}

void EventFd::signal() const {
    // EAGAIN means the counter is full: then it is readable, which is all that is wanted.
    while (::eventfd_write(fd_, 1) < 0 && errno == EINTR) {
    }
}

void EventFd::drain() const {
    eventfd_t count = 0;
    while (::eventfd_read(fd_, &count) < 0 && errno == EINTR) {
    }
}

}  // namespace sl
