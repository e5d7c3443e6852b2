// The socket on which the service manager listens, $NOTIFY_SOCKET.
//
// Of our own because sd_notify(3) waits where the manager is slow to read, and whoever calls it from an event
// loop holds up everybody with it. The format and the two kinds of addresses are those of that page.
#pragma once

#include <sys/un.h>

#include <optional>
#include <string>

#include "shm/error.h"
#include "shm/fd.h"

namespace sl {

class NotifySocket {
  public:
    // What the environment names; none if it names nothing. Error: an address of another kind, or no socket.
    static Result<std::optional<NotifySocket>> of_environment();

    // One message, lines of NAME=value. False if the manager has too many unread ones; nothing waits.
    Result<bool> send(const std::string& state);

  private:
    UniqueFd socket_;
    sockaddr_un address_{};
    socklen_t length_ = 0;
};

}  // namespace sl
