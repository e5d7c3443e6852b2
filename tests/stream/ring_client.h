// The client's side of a batch ring, as a process that knows only shm/layout.h and two descriptors sees it.
//
// Maps the batch segment read-only and the return page writable, from descriptors, at addresses of its own.
// Used by the tests of the ring from one thread at a time.
#pragma once

#include <optional>

#include "daemon/stream/batch_ring.h"
#include "shm/segment.h"

namespace sl {

// A spec's layout for pictures of channels x height x width.
StreamLayout layout_for(std::uint32_t batch, std::uint32_t slots, std::uint32_t height = 4,
                        std::uint32_t width = 4);

BatchRing make_ring(const StreamLayout& layout);

class RingClient {
  public:
    explicit RingClient(const BatchRing& ring);

    [[nodiscard]] const sl_shm_batch_header& header() const;
    [[nodiscard]] const sl_shm_batch_live& live() const;
    [[nodiscard]] const sl_shm_stream_error& error() const;
    [[nodiscard]] sl_shm_return_page& returns() const;
    [[nodiscard]] std::uint64_t slot_word(std::uint32_t slot) const;
    [[nodiscard]] const sl_shm_sample_info* info(std::uint32_t slot) const;
    [[nodiscard]] const std::byte* tensor(std::uint32_t slot, std::size_t index) const;
    [[nodiscard]] const std::byte* base() const { return batches_.data(); }

    // The next descriptor, or nothing if none has been published.
    std::optional<sl_shm_descriptor> take();
    // Ends a lease; rings the daemon if it sleeps.
    void give_back(const sl_shm_descriptor& batch);

  private:
    Mapping batches_;
    Mapping returns_;
    int wake_ = -1;
    std::uint32_t taken_ = 0;
};

}  // namespace sl
