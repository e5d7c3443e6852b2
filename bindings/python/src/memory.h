// Where a batch's tensors lie: a leased slot of the ring, or a private copy of one.
//
// A Memory is held by the Batch, by every Tensor, and by every array that a framework made of one; the last
// of them ends the lease. That may happen on any thread, without the GIL, after the interpreter's end, after
// the stream was closed, or in a forked child: nothing here touches Python, and a child leaves its parent's
// leases alone. Immutable after it was made, but for what a framework writes into the pixels.
#pragma once

#include <speedyloader/speedyloader.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace sl::python {

// What this process holds of one stream's ring, for the error that says so.
class Leases {
  public:
    struct Held {
        std::uint64_t epoch = 0;
        std::uint64_t batch = 0;
        std::chrono::steady_clock::time_point since;
    };

    void add(const sl_batch* batch, const sl_batch_info& info);
    void remove(const sl_batch* batch);
    [[nodiscard]] std::uint32_t count() const;
    // "batch 3 of epoch 0 (2.1 s), ...", oldest first, at most eight.
    [[nodiscard]] std::string describe() const;

  private:
    mutable std::mutex mutex_;
    std::map<const sl_batch*, Held> held_;
};

struct TensorView {
    std::string name;
    sl_tensor tensor;
};

using Block = std::unique_ptr<std::byte, void (*)(void*)>;

// Private memory on a tensor's border of 256 bytes. Throws std::bad_alloc.
Block make_block(std::size_t bytes);

class Memory {
  public:
    // Takes the lease over.
    static std::shared_ptr<const Memory> leased(sl_batch* batch, std::shared_ptr<Leases> leases);
    // A private copy of another's tensors. Throws std::bad_alloc. Long: call it without the GIL.
    static std::shared_ptr<const Memory> copied(const Memory& other);

    // Use the two above.
    Memory();
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    [[nodiscard]] const std::vector<TensorView>& tensors() const { return tensors_; }
    [[nodiscard]] const sl_batch_info& info() const { return info_; }
    [[nodiscard]] bool writable() const { return batch_ == nullptr; }
    // Makes writes harmless: they change what this process sees until the lease ends, and nothing else.
    // False: a write would end the process, because this is a forked child or there is no memory for it. Any
    // thread.
    [[nodiscard]] bool allow_writes() const;
    // Needs row < info().count.
    [[nodiscard]] sl_sample_info sample(std::uint32_t row) const;

  private:
    void describe(const sl_batch* batch);
    void move_to_own_block();

    pid_t pid_;
    sl_batch* batch_ = nullptr;  // null: a private copy
    std::shared_ptr<Leases> leases_;
    Block block_;
    std::vector<TensorView> tensors_;
    std::vector<sl_sample_info> samples_;  // of a private copy
    sl_batch_info info_{};
};

}  // namespace sl::python
