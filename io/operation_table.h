// The io_uring back end's requests under way, by index, and the tags that the kernel carries for them.
//
// Used by uring_reader only, on the conductor's thread. A tag is (generation, index): an answer that comes
// after its operation ended finds nothing, though the place may be taken again.
#pragma once

#include <liburing.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "io/reader.h"
#include "io/retry_policy.h"

namespace sl {

struct Operation {
    bool active = false;  // false: the place is free
    bool is_open = false;
    bool backing_off = false;  // what the kernel has of it is a timer
    std::uint32_t generation = 0;
    bool given_up = false;
    std::optional<std::chrono::steady_clock::time_point> began;  // first handed to the kernel
    std::string path;                                            // opens
    std::shared_ptr<const Reach> reach;                          // of an open
    ReadRequest request;                                         // reads; opens use its tag and mount only
    std::uint64_t done = 0;                                      // bytes read so far
    RetryBudget budget;
    __kernel_timespec delay = {};
};

class OperationTable {
  public:
    // Answers that concern no operation carry this: withdrawn entries, and cancellations themselves.
    static constexpr std::uint64_t kNobody = std::numeric_limits<std::uint64_t>::max();

    // A fresh operation's index.
    std::uint32_t add();
    void release(std::uint32_t index);

    Operation& operator[](std::uint32_t index) { return operations_[index]; }
    [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(operations_.size()); }

    [[nodiscard]] std::uint64_t tag_of(std::uint32_t index) const;
    // The active operation with that tag, or nothing; its index is the tag's low half.
    Operation* find(std::uint64_t tag);

  private:
    std::deque<Operation> operations_;  // a deque: the kernel reads `delay` through its address
    std::vector<std::uint32_t> free_;
};

}  // namespace sl
