// Where the daemon listens: a socket from the service manager, one from whoever started it, or its own path.
//
// Called once by main, before there are other threads (it changes the environment). Failure is a value that
// says which socket will not do.
#pragma once

#include <string>

#include "shm/error.h"
#include "shm/fd.h"

namespace sl {

struct Listening {
    UniqueFd socket;
    std::string name;        // for people; empty where whoever handed it over did not say
    bool owns_path = false;  // made by this daemon, which removes the path when it leaves
};

// Has a service manager sockets for this very process (LISTEN_FDS, LISTEN_PID)?
bool is_socket_activated();

// `handed` (a descriptor, -1: none) comes first: a private daemon's job may be a socket-activated service
// itself. Then the manager's socket, then `path`. The variables are taken out of the environment, so that no
// worker sees them.
Result<Listening> start_listening(int handed, const std::string& path);

}  // namespace sl
