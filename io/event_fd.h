// An eventfd: what a back end makes readable when completions wait, so that the conductor can poll for them.
//
// Used by both readers. signal() may be called by any thread; drain() by the conductor only. Creation and
// duplication are the only calls that can fail.
#pragma once

#include "shm/error.h"

namespace sl {

class EventFd {
  public:
    static Result<EventFd> create();
    // A second descriptor of the same event.
    [[nodiscard]] Result<EventFd> duplicate() const;

    EventFd(EventFd&& other) noexcept;
    EventFd& operator=(EventFd&&) = delete;
    EventFd(const EventFd&) = delete;
    EventFd& operator=(const EventFd&) = delete;
    ~EventFd();

    [[nodiscard]] int get() const { return fd_; }
    void signal() const;
    void drain() const;

  private:
    explicit EventFd(int fd) : fd_(fd) {}
    int fd_ = -1;
};

}  // namespace sl
