// Twenty thousand batches through one ring, to a client in another thread that keeps some leases for a while
// and gives them back in random order. Nothing is lost, torn or written while it is leased, and neither side
// misses a wake-up.
//
// Once over a second mapping, as a client process has it, and once over the daemon's own, where the thread
// sanitizer can tell that PUBLISH and RETURN order every access to a slot.
#include <poll.h>

#include <chrono>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "shm/wake.h"
#include "tests/cmocka_cpp.h"
#include "tests/stream/ring_client.h"

namespace sl {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint64_t kBatches = 20'000;
constexpr std::uint32_t kRows = 4;
constexpr std::uint32_t kSlots = 4;
constexpr std::chrono::seconds kLimit{5};  // longer than any pause of a busy machine

// What the client found out; read after the threads have joined.
struct Found {
    std::uint64_t taken = 0;
    std::uint64_t out_of_order = 0;
    std::uint64_t torn = 0;
    std::uint64_t stalls = 0;
};

struct Owner {
    std::uint64_t stalls = 0;
    std::uint64_t slept = 0;
};

std::byte pattern(std::uint64_t step) {
    return static_cast<std::byte>(step * 31 + 7);
}

// The conductor's side: fills, publishes, and sleeps while all slots are out.
class Daemon {
  public:
    explicit Daemon(BatchRing& ring) : ring_(ring) {}

    Owner run() {
        for (std::uint64_t step = 0; step < kBatches; ++step) {
            const std::uint32_t slot = free_slot();
            std::memset(ring_.tensor(slot, 0), static_cast<int>(pattern(step)),
                        ring_.layout().tensors[0].bytes);
            for (std::uint32_t row = 0; row < kRows; ++row)
                ring_.info(slot, row)->sample_id = step * kRows + row;
            ring_.publish_batch(slot, 0, step, step, kRows);
        }
        ring_.publish_state(SL_DESCRIPTOR_END, 0, kBatches);
        return owner_;
    }

  private:
    std::uint32_t free_slot() {
        while (true) {
            ring_.collect_returns();
            if (const auto slot = ring_.acquire()) return *slot;
            ring_.set_sleeping(true);
            const bool found = ring_.collect_returns();
            pollfd entry{ring_.wake_fd(), POLLIN, 0};
            if (!found) {
                ++owner_.slept;
                const int limit = static_cast<int>(kLimit / std::chrono::milliseconds(1));
                if (::poll(&entry, 1, limit) == 0) ++owner_.stalls;
            }
            ring_.set_sleeping(false);
            quiet(ring_.wake_fd());
        }
    }

    BatchRing& ring_;
    Owner owner_;
};

// The client's side, over the mappings that it is given.
class Reader {
  public:
    Reader(const std::byte* batches, sl_shm_return_page* returns, int wake)
        : base_(batches), returns_(returns), wake_(wake), random_(17) {}

    Found run() {
        while (true) {
            const sl_shm_descriptor one = next();
            if (one.kind == SL_DESCRIPTOR_END) break;
            found_.out_of_order += one.step == found_.taken++ ? 0 : 1;
            check(one);
            held_.push_back(one);
            while (held_.size() == kSlots || (!held_.empty() && random_() % 2 == 0))
                give_back_any();
        }
        while (!held_.empty())
            give_back_any();
        return found_;
    }

  private:
    [[nodiscard]] const sl_shm_batch_header& header() const {
        return *reinterpret_cast<const sl_shm_batch_header*>(base_);
    }
    [[nodiscard]] const std::uint32_t* published() const {
        return &reinterpret_cast<const sl_shm_batch_live*>(base_ + SL_SHM_LIVE_OFFSET)->published;
    }
    [[nodiscard]] bool something() const { return sl_shm_load_acquire_u32(published()) != taken_; }

    sl_shm_descriptor next() {
        while (!something()) {
            sl_shm_store_seq_cst_u32(&returns_->client_sleeps, 1);
            sl_shm_fence_seq_cst();
            if (!something()) {
                const auto start = Clock::now();
                futex_wait(published(), taken_, kLimit);
                if (Clock::now() - start >= kLimit) ++found_.stalls;
            }
            sl_shm_store_relaxed_u32(&returns_->client_sleeps, 0);
        }
        const auto* ring = reinterpret_cast<const sl_shm_descriptor*>(base_ + header().ring_offset);
        const sl_shm_descriptor one = ring[taken_ & (header().ring_capacity - 1)];
        sl_shm_store_relaxed_u32(&returns_->consumed, ++taken_);
        return one;
    }

    // The lease's bytes are this step's, from the first to the last.
    void check(const sl_shm_descriptor& one) {
        const std::byte* image =
            base_ + header().slots_offset + one.slot * header().slot_bytes + header().tensors[0].offset;
        const auto* info = reinterpret_cast<const sl_shm_sample_info*>(base_ + header().info_offset) +
                           std::uint64_t{one.slot} * kRows;
        bool whole = info[kRows - 1].sample_id == one.step * kRows + kRows - 1;
        for (std::uint64_t i = 0; i < header().tensors[0].bytes; ++i)
            whole &= image[i] == pattern(one.step);
        found_.torn += whole ? 0 : 1;
    }

    void give_back_any() {
        const std::size_t index = random_() % held_.size();
        const sl_shm_descriptor one = held_[index];
        held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(index));
        check(one);  // nobody has written it since
        sl_shm_store_release_u32(&returns_->generation[one.slot], one.generation);
        sl_shm_fence_seq_cst();
        const auto* live = reinterpret_cast<const sl_shm_batch_live*>(base_ + SL_SHM_LIVE_OFFSET);
        if (sl_shm_load_relaxed_u32(&live->daemon_sleeps) != 0) ring(wake_);
    }

    const std::byte* base_;
    sl_shm_return_page* returns_;
    int wake_;
    std::mt19937 random_;
    std::uint32_t taken_ = 0;
    std::vector<sl_shm_descriptor> held_;
    Found found_;
};

void expect_whole(BatchRing& ring, const std::byte* batches, sl_shm_return_page* returns) {
    Found found;
    std::thread client([&] { found = Reader(batches, returns, ring.wake_fd()).run(); });
    const Owner owner = Daemon(ring).run();
    client.join();
    assert_true(found.taken == kBatches);
    assert_int_equal(found.out_of_order, 0);
    assert_int_equal(found.torn, 0);
    assert_int_equal(found.stalls, 0);
    assert_int_equal(owner.stalls, 0);
    assert_true(owner.slept > 0);  // else the wake-up was not tried
    ring.collect_returns();
    assert_int_equal(ring.leased(), 0);
}

void over_a_second_mapping_every_batch_arrives_whole_and_stays_so_until_it_is_returned(void**) {
    BatchRing ring = make_ring(layout_for(kRows, kSlots));
    RingClient client(ring);
    expect_whole(ring, client.base(), &client.returns());
}

void over_the_same_mapping_every_access_to_a_slot_is_ordered(void**) {
    BatchRing ring = make_ring(layout_for(kRows, kSlots));
    expect_whole(ring, ring.batches().data(), reinterpret_cast<sl_shm_return_page*>(ring.returns().data()));
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(over_a_second_mapping_every_batch_arrives_whole_and_stays_so_until_it_is_returned),
        cmocka_unit_test(over_the_same_mapping_every_access_to_a_slot_is_ordered),
    };
    return cmocka_run_group_tests_name("stream/ring stress", tests, nullptr, nullptr);
}
