// Connections that have ended with answers unread.
//
// What lies unread in a client's socket, descriptors above all, counts for the daemon in the kernel, which
// lets nobody have more than a process's limit of them under way. So who is detached without having read goes
// on counting as a client of its user until it has read all, or has closed its end. Owned by the server, on
// the loop's thread; looks once a second while there are any.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "daemon/pool/event_loop.h"

namespace sl {

// Bytes that the peer has not read, as the kernel counts them.
int unread(int socket);

class Goodbyes {
  public:
    explicit Goodbyes(EventLoop& loop) : loop_(loop) {}
    ~Goodbyes();
    Goodbyes(const Goodbyes&) = delete;
    Goodbyes& operator=(const Goodbyes&) = delete;

    // Hangs up; keeps the socket only if something of it is unread.
    void add(UniqueFd socket, uid_t uid);
    [[nodiscard]] std::size_t of(uid_t uid) const;

  private:
    void look();

    struct Ended {
        UniqueFd socket;
        uid_t uid = 0;
    };
    EventLoop& loop_;
    std::vector<Ended> ended_;
    std::optional<EventLoop::TimerId> next_look_;
};

}  // namespace sl
