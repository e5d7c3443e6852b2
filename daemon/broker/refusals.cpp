#include "daemon/broker/refusals.h"

#include <iterator>
#include <string>
#include <utility>

namespace sl {

namespace {

constexpr std::size_t kMostWaiting = 64;
constexpr std::chrono::seconds kPatience{1};

}  // namespace

Refusals::~Refusals() {
    while (!waiting_.empty())
        drop(waiting_.begin());
}

void Refusals::add(UniqueFd socket, Error why) {
    if (waiting_.size() >= kMostWaiting) drop(waiting_.begin());
    const int fd = socket.get();
    waiting_.push_back({std::move(socket), std::move(why), std::chrono::steady_clock::now()});
    const Place place = std::prev(waiting_.end());
    if (answer(*place)) {
        waiting_.erase(place);
        return;
    }
    auto added = loop_.add(fd, [this, place](std::uint32_t) {
        if (answer(*place)) drop(place);
    });
    if (!added) return drop(place);
    watch();
}

bool Refusals::answer(const Waiting& waiting) {
    std::string ignored;
    const Received got = receive(waiting.socket.get(), packet_, ignored, Carry::kNothing);
    if (got == Received::kNothing) return false;
    if (got != Received::kMessage) return true;
    auto message = make_message<sl_msg_error>(SL_MSG_ERROR, packet_.head().request);
    message.status = static_cast<std::int32_t>(waiting.why.status);
    message.os_errno = waiting.why.os_errno;
    copy_text(message.message, waiting.why.message);
    static_cast<void>(send_struct(waiting.socket.get(), message));
    return true;
}

void Refusals::drop(Place place) {
    loop_.remove(place->socket.get());
    waiting_.erase(place);
}

void Refusals::watch() {
    if (std::exchange(watching_, true)) return;
    loop_.after(kPatience, [this, alive = std::weak_ptr(alive_)] {
        if (alive.expired()) return;
        watching_ = false;
        const auto long_ago = std::chrono::steady_clock::now() - kPatience;
        while (!waiting_.empty() && waiting_.front().since <= long_ago)
            drop(waiting_.begin());
        if (!waiting_.empty()) watch();
    });
}

}  // namespace sl
