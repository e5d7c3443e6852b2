// Who is at the other end of a socket, as the kernel noted it when the client connected.
//
// Called by the server at accept. Nothing here comes from the client's own words. Failure: the kernel does
// not know.
#pragma once

#include <sys/types.h>

#include "io/reach.h"
#include "shm/error.h"

namespace sl {

struct Peer {
    pid_t pid = 0;
    User user;
};

Result<Peer> peer_of(int socket);

}  // namespace sl
