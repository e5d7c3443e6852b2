// Part of a dataset: what a spec asks for (Subset), and which sample ids that is (Selection).
//
// The spec parser reads a Subset; a dataset that has been scanned turns it into a Selection, which the stream
// puts between the plan and the samples: the plan runs over the indices 0 .. size() - 1, id_at() gives the id
// in the whole dataset. Ids ascend with the index, so that a stream without shuffle keeps the order of the
// files. Immutable values, any thread; lookups allocate nothing and cannot fail. A subset that selects
// nothing, or what is not there, is a kSpec error that names its key, which is below `key`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "shm/error.h"

namespace sl {

enum class SubsetKind : std::uint32_t { kWhole = 0, kFraction = 1, kIds = 2, kLabels = 3 };

// Where a spec has the subset of a dataset that is no part of a mix.
inline constexpr std::string_view kSubsetKey = "dataset.subset";

struct Subset {
    using Label = std::variant<std::uint64_t, std::string>;  // a label, or the name of its class

    SubsetKind kind = SubsetKind::kWhole;
    double fraction = 1;             // above 0, at most 1
    std::vector<std::uint64_t> ids;  // ascending, each once
    std::vector<Label> labels;       // as the client wrote them
    bool operator==(const Subset&) const = default;
};

// FNV-1a, 64 bits: the hash with `number` behind it, as 8 little-endian bytes.
inline constexpr std::uint64_t kFoldBasis = 0xcbf29ce484222325U;
std::uint64_t fold(std::uint64_t hash, std::uint64_t number);

class Selection {
  public:
    // `count` ids from `first` on.
    struct Run {
        std::uint64_t first = 0;
        std::uint64_t count = 0;
    };

    explicit Selection(std::uint64_t samples);  // all of them

    // The nearest whole number to `fraction` x `samples`, chosen once and for all, whatever the seed: of m
    // equal stretches of the ids one sample each, drawn by a keyed generator. So a fraction takes its share
    // of every class, to within one sample a border, and looking up an id costs one draw.
    static Result<Selection> of_fraction(std::uint64_t samples, double fraction,
                                         std::string_view key = kSubsetKey);
    // `ids` ascending, each once.
    static Result<Selection> of_ids(std::uint64_t samples, const std::vector<std::uint64_t>& ids,
                                    std::string_view key = kSubsetKey);
    // Ascending runs below `samples` that do not overlap.
    static Selection of_runs(std::uint64_t samples, const std::vector<Run>& runs);

    [[nodiscard]] std::uint64_t size() const { return size_; }
    // Samples of the dataset that it selects of.
    [[nodiscard]] std::uint64_t whole() const { return samples_; }
    // For index < size(); the caller keeps that bound.
    [[nodiscard]] std::uint64_t id_at(std::uint64_t index) const;
    // Its inverse; nothing for an id that is not selected.
    [[nodiscard]] std::optional<std::uint64_t> index_of(std::uint64_t id) const;

    // The fingerprint of what is selected of a dataset that has the fingerprint `dataset`; of all of it, the
    // same. FNV-1a, going on from `dataset`, over the size, then first id and count of each run (fraction:
    // nothing more, for n and m decide), as 8 little-endian bytes each.
    [[nodiscard]] std::uint64_t fingerprint(std::uint64_t dataset) const;

  private:
    struct Piece {
        std::uint64_t index = 0;
        std::uint64_t id = 0;
    };
    Selection(std::uint64_t samples, std::uint64_t size) : samples_(samples), size_(size) {}
    void add(const Run& run);
    [[nodiscard]] std::uint64_t stretch_start(std::uint64_t index) const;

    std::uint64_t samples_ = 0;  // in the whole dataset
    std::uint64_t size_ = 0;
    std::vector<Piece> pieces_;  // where runs begin, ascending; none: a fraction
};

}  // namespace sl
