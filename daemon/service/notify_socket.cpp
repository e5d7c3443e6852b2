#include "daemon/service/notify_socket.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <string_view>

namespace sl {

Result<std::optional<NotifySocket>> NotifySocket::of_environment() {
    const char* named = std::getenv("NOTIFY_SOCKET");
    if (named == nullptr) return std::nullopt;
    const std::string_view path = named;
    NotifySocket made;
    // A name in the abstract space begins with a null byte, written '@', and ends where its length says.
    if (path.size() < 2 || (path[0] != '/' && path[0] != '@') || path.size() >= sizeof made.address_.sun_path)
        return fail(Status::kInvalidArgument,
                    "NOTIFY_SOCKET=" + std::string(path) + " is no address of a local socket");
    made.address_.sun_family = AF_UNIX;
    path.copy(made.address_.sun_path, path.size());
    if (path[0] == '@') made.address_.sun_path[0] = '\0';
    made.length_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
    made.socket_ = UniqueFd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!made.socket_) return std::unexpected(os_error(Status::kInternal, "socket", errno));
    return made;
}

Result<bool> NotifySocket::send(const std::string& state) {
    while (true) {
        const ssize_t sent = ::sendto(socket_.get(), state.data(), state.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                                      reinterpret_cast<const sockaddr*>(&address_), length_);
        if (sent >= 0) return true;
        if (errno == EAGAIN) return false;
        if (errno != EINTR) return std::unexpected(os_error(Status::kInternal, "NOTIFY_SOCKET", errno));
    }
}

}  // namespace sl
