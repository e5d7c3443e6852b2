// Cost models as files of a cache folder, so that the second run starts knowing: one for each user, dataset
// and pipeline.
//
// Called by cost_store on a thread of its own, and blocking; safe in any number of processes at once. A file
// is made whole under another name and then renamed, so a reader sees the old or the new one. One that is
// damaged, of another version, of another dataset or pipeline, or not this user's own is not believed, with
// the reason; it costs predictions, never a sample. The folder is kept small (cost_room.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "daemon/predict/cost_model.h"
#include "shm/error.h"

namespace sl {

// What a cost model is of, and who learned it.
struct CostKey {
    static constexpr std::uint64_t kOwn = 0;

    std::uint64_t dataset = 0;     // its fingerprint
    std::uint64_t pipeline = 0;    // pipeline_hash's
    std::uint64_t samples = 0;     // ids are below it
    std::uint64_t learner = kOwn;  // the daemon's own user, or another's uid + 1
    bool operator==(const CostKey&) const = default;
};

// Of all in a pipeline that a worker's cost depends on.
std::uint64_t pipeline_hash(const Pipeline& pipeline);

// The file's layout, in the byte order of the host: this, then a word for each sample (sample_history.cpp).
struct CostFileHeader {
    static constexpr char kMagic[8] = {'S', 'L', 'C', 'O', 'S', 'T', 'S', '\n'};
    static constexpr std::uint32_t kVersion = 2;

    char magic[8];
    std::uint32_t version;
    std::uint32_t header_bytes;
    std::uint64_t checksum;  // XXH3, 64 bits, of every byte after this field
    CostKey key;
    CostModel::Learned learned;
};

// Datasets with more samples keep nothing over restarts: a file of 256 MB is enough.
inline constexpr std::uint64_t kMostKeptSamples = std::uint64_t{1} << 25;

// $XDG_CACHE_HOME/speedyloader/costs, else below ~/.cache; "" without either.
std::string user_cost_folder();

std::string cost_path(const std::string& folder, const CostKey& key);

struct KeptCosts {
    CostModel::Learned learned;
    std::unique_ptr<SampleHistory> history;
};

// kNotFound: there is none. kDataset, kDenied, kIo: there is something that is not believed or cannot be
// read.
Result<KeptCosts> load_costs(const std::string& path, const CostKey& key);

// Makes the folder if need be. `history` may go on being written by another thread. kIo with the reason.
Result<void> save_costs(const std::string& folder, const CostKey& key, const CostModel::Learned& learned,
                        const SampleHistory& history);

}  // namespace sl
