#include "daemon/broker/listener.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

namespace sl {

namespace {
constexpr int kBacklog = 256;
}

Result<UniqueFd> listen_at(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) {
        return fail(Status::kInvalidArgument, "the socket path " + path + " is too long (at most " +
                                                  std::to_string(sizeof address.sun_path - 1) + " bytes)");
    }
    std::memcpy(address.sun_path, path.c_str(), path.size());
    const auto* generic = reinterpret_cast<const sockaddr*>(&address);
    UniqueFd probe(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (!probe) return std::unexpected(os_error(Status::kInternal, "socket", errno));
    if (::connect(probe.get(), generic, sizeof address) == 0) {
        return fail(Status::kInvalidArgument, "another daemon already answers at " + path);
    }
    struct stat existing {};
    if (errno == ECONNREFUSED && ::lstat(path.c_str(), &existing) == 0 && S_ISSOCK(existing.st_mode)) {
        ::unlink(path.c_str());  // a dead daemon's socket
    }
    UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd || ::bind(fd.get(), generic, sizeof address) != 0 || ::listen(fd.get(), kBacklog) != 0) {
        return std::unexpected(os_error(Status::kInternal, "cannot listen at " + path, errno));
    }
    return fd;
}

Result<UniqueFd> adopt_listener(int fd) {
    int type = 0;
    int listening = 0;
    socklen_t length = sizeof type;
    bool good = ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_SEQPACKET;
    length = sizeof listening;
    good = good && ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) == 0 && listening != 0;
    if (!good) {
        return fail(Status::kInvalidArgument,
                    "descriptor " + std::to_string(fd) + " is no listening SOCK_SEQPACKET socket");
    }
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    ::fcntl(fd, F_SETFL, O_NONBLOCK);
    return UniqueFd(fd);
}

}  // namespace sl
