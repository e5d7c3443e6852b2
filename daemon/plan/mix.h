// Several datasets as one: how many samples of each part make up an epoch, and which stands where in it.
//
// Made by the dataset once its parts have been scanned; the batch plan asks a MixOrder through a Sequence.
// Immutable values, any thread; lookups allocate nothing and cannot fail. Why it is so: decision 0013.
//
// Counts: with n samples and weight w in each part, the part with the smallest n / w gives all it has, and
// every other one the nearest whole number to what its weight then asks for. So no sample comes twice in an
// epoch. Without weights each part gives all of its samples.
//
// Places, by splitting exactly, the part with the largest count c first: of the m positions that the parts
// before have left, it has round(P x c / m) of the first P, in their order; the others, numbered anew, are
// left to the next part. The last part takes all. So of the first P positions of an epoch of L each of k
// parts has its share P x c / L to within half a sample with two parts, one with three, and (1 + 1 + 1/2 +
// ... + 1/(k - 2)) / 2 with more: 1.6 with 6, 2.9 with 64. Of any stretch, twice that.
//
// Order in a part: that of a dataset of its own with seed + i. A part that gives c < n of its samples goes
// round a fixed order of all of them: an epoch takes the next c, in an order of its own. So each has come
// after ceil(n / c) epochs. Without shuffle both orders are that of the files.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "daemon/plan/order.h"
#include "daemon/plan/subset.h"
#include "shm/error.h"

namespace sl {

inline constexpr std::size_t kMaxParts = 64;

class Mix {
  public:
    struct Part {
        Selection selection;
        std::uint64_t first_id = 0;  // the mix's ids of this part's whole dataset begin here
        std::uint64_t count = 0;     // samples of it in an epoch
        std::size_t turn = 0;        // among the parts by falling count
        std::uint64_t left = 0;      // samples an epoch of this part and those whose turn is later
    };
    struct Place {
        std::size_t part = 0;
        std::uint64_t number = 0;  // the how-manieth of its part
        bool operator==(const Place&) const = default;
    };

    // One to kMaxParts selections, none empty; `weights` finite, above 0, one a part or none at all. kSpec,
    // with the numbers: a part would give no sample, or there are more than kMaxSamples.
    static Result<Mix> make(std::vector<Selection> parts, const std::vector<double>& weights);

    // Samples of an epoch.
    [[nodiscard]] std::uint64_t size() const { return parts_[turns_.front()].left; }
    [[nodiscard]] std::span<const Part> parts() const { return parts_; }

    // For position < size(), number < count; the caller keeps these bounds.
    [[nodiscard]] Place place_at(std::uint64_t position) const;
    [[nodiscard]] std::uint64_t position_of(const Place& place) const;

    // The part that an id lies in; one beyond them all is the last part's.
    [[nodiscard]] std::size_t part_of(std::uint64_t id) const;

    // FNV-1a over number of parts, then fingerprint and count of each, as 8 little-endian bytes. `parts`: the
    // fingerprints of what is selected of them.
    [[nodiscard]] std::uint64_t fingerprint(std::span<const std::uint64_t> parts) const;

  private:
    Mix() = default;
    void take_turns();

    std::vector<Part> parts_;
    std::vector<std::size_t> turns_;  // parts by falling count
};

// The order of one epoch of a mix.
class MixOrder {
  public:
    MixOrder(std::shared_ptr<const Mix> mix, std::uint64_t seed, std::uint64_t epoch, bool shuffle);

    [[nodiscard]] std::uint64_t size() const { return mix_->size(); }
    // For position < size(); the caller keeps that bound.
    [[nodiscard]] std::uint64_t id_at(std::uint64_t position) const;
    // Its inverse; nothing for an id that this epoch does not have.
    [[nodiscard]] std::optional<std::uint64_t> position_of(std::uint64_t id) const;

  private:
    struct PartOrder {
        Order window;             // of the samples that this epoch takes
        Order round;              // of all
        std::uint64_t start = 0;  // of the window, in the round
    };
    std::shared_ptr<const Mix> mix_;
    std::vector<PartOrder> orders_;
};

}  // namespace sl
