// A ring with one producer and one consumer, over words and entries that lie in shared memory.
//
// Each side keeps its own index in private memory and only ever *publishes* it, so a hostile or crashed
// partner can garble what it alone writes and nothing else: the index read from the other side is checked
// against the capacity before use. Producer and consumer each belong to one thread.
#pragma once

#include <cstdint>

#include "shm/layout.h"

namespace sl {

template <class Entry, std::uint32_t kCapacity>
class RingProducer {
    static_assert((kCapacity & (kCapacity - 1)) == 0, "capacity is a power of two");

  public:
    RingProducer() = default;
    RingProducer(Entry* entries, std::uint32_t* tail, const std::uint32_t* head)
        : entries_(entries), tail_word_(tail), head_word_(head) {}

    [[nodiscard]] std::uint32_t free() const {
        std::uint32_t used = tail_ - sl_shm_load_acquire_u32(head_word_);  // TAKEN / REAPED
        return used <= kCapacity ? kCapacity - used : 0;
    }
    // Copies the entry in and publishes it. The caller has seen free() > 0.
    void push(const Entry& entry) {
        entries_[tail_ & (kCapacity - 1)] = entry;
        sl_shm_store_release_u32(tail_word_, ++tail_);  // JOB / DONE
    }

  private:
    Entry* entries_ = nullptr;
    std::uint32_t* tail_word_ = nullptr;
    const std::uint32_t* head_word_ = nullptr;
    std::uint32_t tail_ = 0;
};

template <class Entry, std::uint32_t kCapacity>
class RingConsumer {
    static_assert((kCapacity & (kCapacity - 1)) == 0, "capacity is a power of two");

  public:
    RingConsumer() = default;
    RingConsumer(const Entry* entries, const std::uint32_t* tail, std::uint32_t* head)
        : entries_(entries), tail_word_(tail), head_word_(head) {}

    // Copies the next entry out; false if there is none. A tail further ahead than the ring is long is a
    // partner's lie and reads as "none": see broken().
    bool pop(Entry& out) {
        std::uint32_t ready = sl_shm_load_acquire_u32(tail_word_) - head_;  // JOB / DONE
        if (ready == 0 || ready > kCapacity) return false;
        out = entries_[head_ & (kCapacity - 1)];
        sl_shm_store_release_u32(head_word_, ++head_);  // TAKEN / REAPED
        return true;
    }
    [[nodiscard]] bool broken() const { return sl_shm_load_acquire_u32(tail_word_) - head_ > kCapacity; }
    [[nodiscard]] std::uint32_t position() const { return head_; }

  private:
    const Entry* entries_ = nullptr;
    const std::uint32_t* tail_word_ = nullptr;
    std::uint32_t* head_word_ = nullptr;
    std::uint32_t head_ = 0;
};

using JobProducer = RingProducer<sl_shm_job, SL_SHM_JOBS>;
using JobConsumer = RingConsumer<sl_shm_job, SL_SHM_JOBS>;
using CompletionProducer = RingProducer<sl_shm_completion, SL_SHM_JOBS>;
using CompletionConsumer = RingConsumer<sl_shm_completion, SL_SHM_JOBS>;

}  // namespace sl
