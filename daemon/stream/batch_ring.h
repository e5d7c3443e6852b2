// The daemon's side of a batch ring: slots, descriptors, leases.
//
// Owned by the conductor thread (assembler threads write into slots that it handed to them). A published
// batch is leased to the client at once; the lease (boot id, slot, generation) ends when the client's return
// page shows that generation for that slot, in any order. The return page is the client's to garble: each
// word is copied once and counts only if this table, which is private memory, says that the slot is leased
// with just that generation. So a hostile client can end its own leases early or never, and nothing else.
//
// Where guests write rows into the slots, the batch segment is sealed in its size only and theirs to garble
// as a whole. So nothing of it is ever read here: what is counted on is private, and the segment has copies.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "daemon/observe/trace.h"
#include "daemon/plan/position.h"
#include "daemon/stream/stream_layout.h"
#include "shm/segment.h"
#include "shm/wake.h"

namespace sl {

inline void count(std::uint64_t& word, std::uint64_t by = 1) {
    word += by;
}

struct RingIdentity {
    std::uint64_t boot_id = 0;
    std::uint64_t stream_id = 0;
    std::uint64_t batches_per_epoch = 0;
    std::uint64_t epochs = 0;
    std::uint64_t samples = 0;
    SavedPosition start{};     // of the first batch; the client's own positions count on from it
    bool any_members = false;  // a batch holds what finished first
};

class BatchRing {
  public:
    static Result<BatchRing> create(const StreamLayout& layout, const RingIdentity& identity);

    // From now on the trace is told of publications, leases and the client's waits. It outlives the ring.
    void watch(Trace& trace);

    // A free slot, now FILLING; nothing while all are filling or leased.
    std::optional<std::uint32_t> acquire();

    // PUBLISH. Descriptors reach the client in the order of these calls.
    void publish_batch(std::uint32_t slot, std::uint64_t epoch, std::uint64_t batch, std::uint64_t step,
                       std::uint32_t count);
    void publish_state(std::uint32_t kind, std::uint64_t epoch, std::uint64_t step);
    // Writes the error page first.
    void publish_error(const sl_shm_stream_error& error, std::uint64_t step);
    void close();
    // Finished work has waited for a slot until now.
    void was_full(std::uint64_t since_ns);

    // RETURN. Frees the slots whose leases have ended; true if there were any.
    bool collect_returns();
    // SLEEP pair: the conductor is about to wait, or has woken. Before it waits the client is shown the
    // stats.
    void set_sleeping(bool sleeping);

    // Addresses in slot `slot`, for the assembler.
    [[nodiscard]] std::byte* tensor(std::uint32_t slot, std::size_t index) const;
    [[nodiscard]] sl_shm_sample_info* info(std::uint32_t slot, std::uint32_t row) const;
    [[nodiscard]] const StreamLayout& layout() const { return layout_; }

    // The client is shown them with each publication, and before the conductor waits.
    [[nodiscard]] sl_shm_stats& stats() { return stats_; }
    [[nodiscard]] const sl_shm_stats& stats() const { return stats_; }
    [[nodiscard]] std::uint32_t leased() const { return leased_; }
    // Published batches that the client has not taken yet (by its own account; for the status only).
    [[nodiscard]] std::uint32_t unread() const;
    // Time that the client has been without a batch after asking for one, and whether it is now: its own
    // account as well. A client that waits for the event descriptor instead of in sl_next keeps none.
    [[nodiscard]] std::uint64_t client_waited_ns() const;
    [[nodiscard]] std::uint64_t client_waits_since() const;
    [[nodiscard]] bool client_keeps_waits() const;
    // Batches that were published when the client had taken all before them.
    [[nodiscard]] std::uint64_t found_empty() const { return found_empty_; }
    // How far the client has come, by its own account; nothing before the first.
    struct Taken {
        std::uint64_t step = 0;  // all batches before it
        bool waited = false;     // nothing lay unread when the last of them was published
    };
    [[nodiscard]] std::optional<Taken> taken() const;

    // Hands the memory that the client was given to whoever looks after it; the ring is nothing afterwards.
    void give_up(std::vector<Segment>& to);

    // For attaching: the client maps batches read-only and returns writable, a guest the slots writable.
    [[nodiscard]] const Segment& batches() const { return batches_; }
    [[nodiscard]] const Segment& returns() const { return returns_; }
    [[nodiscard]] int wake_fd() const { return wake_.get(); }  // the client rings it after a return
    // Readable from the start, then rung on publish for who asked for it, and on close; for event loops.
    [[nodiscard]] int event_fd() const { return event_.listener.get(); }

  private:
    struct Slot {
        std::uint32_t state = SL_SLOT_FREE;
        std::uint32_t generation = 0;
        sl_shm_trace_event lease{};  // since its publication
    };

    void write_header(const RingIdentity& identity);
    void set_slot(std::uint32_t slot, std::uint32_t state);
    void publish(const sl_shm_descriptor& descriptor);
    void show_stats();

    // ring_trace.cpp
    [[nodiscard]] sl_shm_trace_event event_of(std::uint8_t kind, const sl_shm_descriptor& descriptor) const;
    void trace_publication(const sl_shm_descriptor& descriptor);
    void trace_return(const Slot& slot);
    void trace_end_of_epoch(const sl_shm_descriptor& descriptor);

    [[nodiscard]] sl_shm_batch_live* live() const {
        return reinterpret_cast<sl_shm_batch_live*>(batches_.data() + SL_SHM_LIVE_OFFSET);
    }
    [[nodiscard]] const sl_shm_return_page* return_page() const {
        return reinterpret_cast<const sl_shm_return_page*>(returns_.data());
    }

    StreamLayout layout_;
    Segment batches_;
    Segment returns_;
    UniqueFd wake_;
    Bell event_;
    std::vector<Slot> slots_;
    std::vector<Taken> after_;  // of each descriptor: how far the client has come that has taken it
    sl_shm_stats stats_{};
    std::uint32_t published_ = 0;
    std::uint32_t leased_ = 0;
    std::uint64_t found_empty_ = 0;
    std::uint32_t stream_ = 0;  // id, for the trace
    Trace* trace_ = nullptr;
    std::uint64_t last_wait_end_ns_ = 0;  // no wait began earlier, whatever the client says
};

}  // namespace sl
