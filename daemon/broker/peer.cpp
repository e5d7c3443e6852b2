#include "daemon/broker/peer.h"

#include <sys/socket.h>

#include <cerrno>

namespace sl {

Result<Peer> peer_of(int socket) {
    ucred credentials{};
    socklen_t length = sizeof credentials;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0)
        return std::unexpected(os_error(Status::kInternal, "SO_PEERCRED", errno));
    Peer peer{credentials.pid, {credentials.uid, {}}};
    std::vector<gid_t>& groups = peer.user.groups;
    groups.resize(64);
    length = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
    int result = ::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &length);
    if (result != 0 && errno == ERANGE) {  // `length` says how many there are; they never change
        groups.resize(length / sizeof(gid_t));
        result = ::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &length);
    }
    if (result != 0) return std::unexpected(os_error(Status::kInternal, "SO_PEERGROUPS", errno));
    groups.resize(length / sizeof(gid_t));
    groups.push_back(credentials.gid);
    return peer;
}

}  // namespace sl
