// Connections that are refused: each gets its reason as the answer to its HELLO, and is closed.
//
// Owned by the server, on the conductor's thread. A reason that is sent before the client has asked would be
// lost to a library that only then sends its HELLO, so one that has not come yet is waited for, for a moment
// and for few.
#pragma once

#include <chrono>
#include <list>
#include <memory>

#include "daemon/pool/event_loop.h"
#include "shm/error.h"
#include "shm/socket.h"

namespace sl {

class Refusals {
  public:
    // `packet`: the server's, for what comes.
    Refusals(EventLoop& loop, Packet& packet) : loop_(loop), packet_(packet) {}
    ~Refusals();
    Refusals(const Refusals&) = delete;
    Refusals& operator=(const Refusals&) = delete;

    void add(UniqueFd socket, Error why);

  private:
    struct Waiting {
        UniqueFd socket;
        Error why;
        std::chrono::steady_clock::time_point since;
    };
    using Place = std::list<Waiting>::iterator;
    // Whether it has been answered, or needs no answer any more.
    bool answer(const Waiting& waiting);
    void drop(Place place);
    void watch();

    EventLoop& loop_;
    Packet& packet_;
    std::list<Waiting> waiting_;  // oldest first
    bool watching_ = false;
    std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace sl
