// The listening socket: made from a path, or handed over by whoever started the daemon.
//
// Called once from main. A path left behind by a dead daemon is replaced; one that answers is an error.
#pragma once

#include <string>

#include "shm/error.h"
#include "shm/fd.h"

namespace sl {

Result<UniqueFd> listen_at(const std::string& path);

// Takes over descriptor `fd` (socket activation, or the client library's private daemon).
Result<UniqueFd> adopt_listener(int fd);

}  // namespace sl
