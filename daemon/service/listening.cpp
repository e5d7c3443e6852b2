// See listening.h.
#include "daemon/service/listening.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>

#include <cstddef>
#include <cstring>

#include "daemon/broker/listener.h"

namespace sl {

namespace {

std::string name_of(int socket) {
    sockaddr_un address{};
    socklen_t length = sizeof address;
    if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0) return {};
    if (length <= offsetof(sockaddr_un, sun_path)) return {};
    const std::size_t bytes = length - offsetof(sockaddr_un, sun_path);
    if (address.sun_path[0] == '\0') return std::string(1, '@').append(address.sun_path + 1, bytes - 1);
    return {address.sun_path, ::strnlen(address.sun_path, bytes)};
}

}  // namespace

bool is_socket_activated() {
    return ::sd_listen_fds(0) > 0;
}

Result<Listening> start_listening(int handed, const std::string& path) {
    const int count = ::sd_listen_fds(1);
    if (handed >= 0) {
        auto socket = adopt_listener(handed);
        if (!socket) return std::unexpected(std::move(socket).error());
        return Listening{std::move(*socket), path, false};
    }
    if (count > 1) {
        return fail(Status::kInvalidArgument, "the service manager handed over " + std::to_string(count) +
                                                  " sockets, and this daemon listens at one");
    }
    if (count == 1) {
        auto socket = adopt_listener(SD_LISTEN_FDS_START);
        if (!socket) return std::unexpected(std::move(socket).error().because("from the service manager"));
        std::string name = name_of(socket->get());
        return Listening{std::move(*socket), std::move(name), false};
    }
    auto socket = listen_at(path);
    if (!socket) return std::unexpected(std::move(socket).error());
    return Listening{std::move(*socket), path, true};
}

}  // namespace sl
