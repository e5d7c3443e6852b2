// Who is at the other end of a socket, as the kernel noted it when the client connected.
//
// Called by the server at accept. Nothing here comes from the client's own words. Failure: the kernel does
// not know.
#pragma once

#include <sys/types.h>

#include "io/reach.h"
#include "shm/error.h"
#include "shm/fd.h"

namespace sl {

struct Peer {
    pid_t pid = 0;
    User user;
};

Result<Peer> peer_of(int socket);

// The client's process. By the socket itself where the kernel can (Linux 6.5): a number may have passed to
// another process meanwhile, and there is none for a client in a name space that this daemon's does not
// contain. Empty: it is gone.
UniqueFd process_of(int socket, const Peer& peer);

}  // namespace sl
