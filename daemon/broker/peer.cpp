#include "daemon/broker/peer.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77  // Linux 6.5; older headers lack the name
#endif

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

UniqueFd process_of(int socket, const Peer& peer) {
    int pidfd = -1;
    socklen_t length = sizeof pidfd;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &length) == 0) return UniqueFd(pidfd);
    if (errno != ENOPROTOOPT) return {};
    return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0)));
}

}  // namespace sl
