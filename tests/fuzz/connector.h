// Connections to a daemon that come from another process than the fuzzer's: the daemon kills guests that
// garble their rings, and that is who connected. One thread. Aborts where no connection can be had.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "shm/socket.h"

namespace sl {

[[noreturn]] inline void broken(const char* what) {
    std::fprintf(stderr, "%s\n", what);
    std::abort();
}

// The fuzzer's own timer interrupts it.
inline bool readable(int fd, int milliseconds) {
    pollfd entry{fd, POLLIN, 0};
    int ready = 0;
    do {
        ready = ::poll(&entry, 1, milliseconds);
    } while (ready < 0 && errno == EINTR);
    return ready == 1;
}

// Makes the connections, as a process of its own: a guest that garbles its rings is killed, and that is who
// connected.
class Connector {
  public:
    ~Connector() { end(); }

    UniqueFd connect(const sockaddr_un& address, socklen_t length) {
        for (int tries = 0; tries < 100; ++tries) {
            if (pid_ <= 0) begin(address, length);
            if (auto fd = ask()) return fd;
            end();  // it has been killed
        }
        broken("no connection");
    }

  private:
    UniqueFd ask() {
        Packet& packet = *packet_;
        sl_message wish{};
        std::string why;
        if (!send_message(control_.get(), &wish, sizeof wish) || !readable(control_.get(), 4000)) return {};
        if (receive(control_.get(), packet, why, Carry::kDescriptor) != Received::kMessage) return {};
        return std::move(packet.fd);
    }

    void begin(const sockaddr_un& address, socklen_t length) {
        int ends[2];
        if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) broken("socketpair");
        control_.reset(ends[0]);
        pid_ = ::fork();
        if (pid_ == 0) serve(ends[1], address, length);
        ::close(ends[1]);
    }

    // In a copy of a process with threads: nothing here takes a lock.
    [[noreturn]] static void serve(int control, const sockaddr_un& address, socklen_t length) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        sl_message wish{};
        while (::recv(control, &wish, sizeof wish, 0) > 0) {
            const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
            if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), length) != 0) break;
            static_cast<void>(send_message(control, &wish, sizeof wish, {}, fd));
            ::close(fd);
        }
        ::_exit(0);
    }

    void end() {
        if (pid_ > 0) {
            ::kill(pid_, SIGKILL);
            ::waitpid(pid_, nullptr, 0);
        }
        pid_ = 0;
    }

    pid_t pid_ = 0;
    UniqueFd control_;
    std::unique_ptr<Packet> packet_ = std::make_unique<Packet>();
};

}  // namespace sl
