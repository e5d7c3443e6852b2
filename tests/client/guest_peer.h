// The daemon's half of a guest's conversation, for tests: a real socket, a real channel, real segments, and
// every lie that a test wants to tell.
//
// Not a stand-in for the daemon: the promises under test are the library's, towards any daemon. The greeting
// runs on a thread of its own, because attaching waits for it; all else belongs to the test's thread. What
// does not come within 20 s is a failed assertion.
#pragma once

#include <speedyloader/speedyloader.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "shm/segment.h"
#include "shm/socket.h"
#include "shm/spsc.h"
#include "tests/cmocka_cpp.h"

namespace sl {

inline constexpr std::uint64_t kCrew = 0x0123456789abcdef;
inline constexpr std::uint64_t kStream = 42;
inline constexpr int kPatienceMs = 20'000;

class GuestPeer {
  public:
    GuestPeer();
    ~GuestPeer();
    GuestPeer(const GuestPeer&) = delete;
    GuestPeer& operator=(const GuestPeer&) = delete;

    // Attaches a guest to this peer, which meanwhile does what `greeting` says.
    sl_status attach(sl_guest** guest, const std::function<void()>& greeting, std::int64_t timeout_ms = 0);
    sl_status attach(sl_guest** guest) {
        return attach(guest, [this] { greet(); });
    }
    // Parts of a greeting: takes the guest's two messages in; answers with channel and bell.
    void accept_hello();
    void greet();

    void send_segment(std::uint32_t kind, std::uint64_t stream, std::uint64_t bytes, int fd);
    void send_layout(std::uint64_t stream, const sl_shm_item_layout& layout,
                     std::uint32_t stated = sizeof(sl_shm_item_layout));
    void forget(std::uint64_t stream);
    // CONTROL: the guest is told that there are messages.
    void told();
    // Layout, segments, CONTROL.
    void announce(std::uint64_t stream, const sl_shm_item_layout& layout, const Segment& samples,
                  const Segment* rows = nullptr);
    // The next message of the guest; its length is 0 if it has hung up.
    const Packet& hear();

    void give(const sl_shm_job& job);
    // One completion, waited for as the conductor does.
    sl_shm_completion take();

    void hang_up() { socket_.reset(); }
    void close_listener();
    [[nodiscard]] int socket() const { return socket_.get(); }
    [[nodiscard]] int bell() const { return wake_.get(); }
    [[nodiscard]] sl_shm_worker_channel* channel() const {
        return reinterpret_cast<sl_shm_worker_channel*>(channel_.data());
    }
    [[nodiscard]] const Segment& channel_segment() const { return channel_; }
    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] const sl_msg_hello& hello() const { return hello_; }
    [[nodiscard]] const sl_msg_guest& guest() const { return guest_; }

  private:
    void call();

    std::string path_;
    UniqueFd listener_;
    UniqueFd socket_;
    UniqueFd wake_;
    Segment channel_;
    JobProducer jobs_;
    CompletionConsumer completions_;
    std::uint32_t calls_ = 0;
    std::uint32_t messages_ = 0;
    sl_msg_hello hello_{};
    sl_msg_guest guest_{};
    std::unique_ptr<Packet> packet_ = std::make_unique<Packet>();
};

// A segment that cannot be cut, as the daemon's are.
Segment sealed(const char* name, std::uint64_t bytes);

// Fields of 12 and 100 bytes in slots of 512, and an opaque one of up to 300.
sl_shm_item_layout two_fields();
sl_shm_item_layout opaque_field();
// Fields of 128 and 12 bytes, the first of which is written into batches, if it has its place there: two of
// them with four rows, from 4096 on, 4096 bytes each.
sl_shm_item_layout placed_fields();
// An opaque field of up to 256 bytes, in such batches too, with one of up to 100 bytes that is collated.
sl_shm_item_layout collated_field();

// What the calling thread's last error says contains `part`.
void assert_says(const char* part);

std::int64_t now_ms();

}  // namespace sl
