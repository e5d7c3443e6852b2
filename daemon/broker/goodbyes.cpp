#include "daemon/broker/goodbyes.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

namespace sl {

int unread(int socket) {
    int bytes = 0;
    return ::ioctl(socket, SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}

Goodbyes::~Goodbyes() {
    if (next_look_) loop_.cancel(*next_look_);
}

void Goodbyes::add(UniqueFd socket, uid_t uid) {
    if (!socket || unread(socket.get()) == 0) return;
    ::shutdown(socket.get(), SHUT_RDWR);
    ended_.push_back({std::move(socket), uid});
    look();
}

std::size_t Goodbyes::of(uid_t uid) const {
    return static_cast<std::size_t>(std::ranges::count(ended_, uid, &Ended::uid));
}

void Goodbyes::look() {
    std::erase_if(ended_, [](const Ended& ended) { return unread(ended.socket.get()) == 0; });
    if (ended_.empty() || next_look_) return;
    next_look_ = loop_.after(std::chrono::seconds(1), [this] {
        next_look_.reset();
        look();
    });
}

}  // namespace sl
