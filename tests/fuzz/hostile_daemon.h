// The other end of a client's socket, which says what a fuzzer's input says: proper answers among them, so
// that the conversation gets somewhere, with everything in them wrong now and then.
//
// One connection after the other, in a thread of its own; whoever made it connects, and waits for its end by
// the destructor.
#pragma once

#include <fuzzer/FuzzedDataProvider.h>

#include <string>
#include <thread>

#include "shm/fd.h"
#include "shm/socket.h"

namespace sl {

class HostileDaemon {
  public:
    // Listens at `path`, which it removes in the end. `input` is used by the thread alone until the end.
    HostileDaemon(std::string path, FuzzedDataProvider& input);
    ~HostileDaemon();
    HostileDaemon(const HostileDaemon&) = delete;
    HostileDaemon& operator=(const HostileDaemon&) = delete;

  private:
    void serve();
    bool answer(int socket, const sl_message& head);
    void say_something(int socket, std::uint32_t request);
    void send_segment(int socket, std::uint32_t request, std::uint32_t kind);
    void send_layout(int socket, std::uint32_t request);
    UniqueFd batches();
    UniqueFd spoiled(std::span<const std::byte> bytes, std::size_t size);

    std::string path_;
    FuzzedDataProvider& input_;
    UniqueFd listener_;
    std::thread thread_;
};

}  // namespace sl
