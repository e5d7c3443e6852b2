// A stream with its own connection: what a Loader stands on.
//
// One mutex serialises the calls that the C API wants from one thread at a time; it is taken without the GIL,
// so that a thread that waits for a batch never keeps others from Python. Waits are slices, between which
// Ctrl-C is noticed. In a forked child every call raises ForkedError before it touches a lock.
#pragma once

#include <nanobind/nanobind.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "batch.h"
#include "gil.h"
#include "items.h"
#include "memory.h"

namespace sl::python {

enum class RingFull { kCopy, kError };

struct OpenOptions {
    std::string spec;
    std::string state;                  // empty: from the start
    bool allow_change = false;          // of the dataset since the state
    std::optional<std::string> socket;  // none: as sl_connect finds one
    std::string program;
    std::uint32_t slots = 0;
    bool copy = false;
    RingFull ring_full = RingFull::kCopy;
    std::int64_t timeout_ms = 0;         // 0: the C API's own
    std::int64_t reconnect_ms = 0;       // as the C API's
    std::shared_ptr<const Items> items;  // null: not a stream of items
};

// The two handles of an opened stream; closing them is the destructor's.
struct Handles {
    sl_client* client = nullptr;
    sl_stream* stream = nullptr;
    Handles() = default;
    Handles(Handles&& other) noexcept;
    Handles& operator=(Handles&& other) noexcept;
    ~Handles();
};

class Stream {
  public:
    // Connects and opens, which may take as long as the scan of a folder; Ctrl-C ends the wait.
    explicit Stream(OpenOptions options);
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    // A Batch, or the status "end_of_epoch" (once `until` epochs have ended since the opening), "end",
    // "timeout" as str. timeout_ms < 0: no limit. A batch is not lost when a signal's handler raises:
    // interrupted() is that batch, and the next call gives it.
    nanobind::object next(std::int64_t timeout_ms, std::uint64_t until);
    [[nodiscard]] nanobind::object interrupted() const;
    void close();
    // Ends the stream alone: the connection, and with it a private daemon and a crew, stays until close().
    void finish();
    // Daemons that were lost and followed by another one.
    [[nodiscard]] std::uint64_t reconnects() const { return reconnects_.load(std::memory_order_relaxed); }
    [[nodiscard]] bool closed() const { return closed_.load(std::memory_order_relaxed); }

    std::string state();
    nanobind::dict info();
    nanobind::dict stats();
    nanobind::object report();
    nanobind::object status();

    // Throws CallFailed in a forked child.
    void check_process() const;

  private:
    std::unique_lock<std::mutex> lock();
    sl_status take(std::int64_t timeout_ms, std::uint64_t until, sl_batch** batch);
    bool is_ring_of_today();
    void begin_ring();
    template <class Ask>
    nanobind::object document(Ask ask);
    nanobind::object deliver(sl_status status, sl_batch* batch);

    const pid_t pid_;
    const bool copy_;
    const RingFull ring_full_;
    std::uint32_t slots_ = 0;  // this and leases_ are changed with GIL and mutex, and read with either
    FairMutex mutex_;          // guards handles_ and ends_
    Handles handles_;
    std::uint64_t ends_ = 0;        // epochs whose end was met
    bool unsure_ = false;           // the last call came back without a batch; guarded as ends_
    nanobind::object interrupted_;  // under the GIL
    std::atomic<bool> closed_{false};
    std::atomic<std::uint64_t> reconnects_{0};
    std::uint64_t rings_ = 0;  // reconnections that slots_ and leases_ are of
    std::shared_ptr<Leases> leases_ = std::make_shared<Leases>();
    std::uint64_t copied_ = 0;  // under the GIL
};

void register_stream(nanobind::module_& module);

}  // namespace sl::python
