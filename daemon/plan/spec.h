// The spec: what a client asks a stream to be, parsed from its JSON document into plain values.
//
// Called by the broker when a client opens a stream, and by tools that check a spec. Pure functions, any
// thread. Parsing is strict: an unknown key, a wrong type or a value out of range is an error that names the
// key with its path, the value, and what is allowed. Nothing throws; whatever a client sends, the answer is a
// Spec or one sentence. The keys and their defaults are listed in docs/spec.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/plan/batches.h"
#include "daemon/plan/items.h"
#include "daemon/plan/pipeline.h"
#include "daemon/plan/subset.h"
#include "shm/error.h"

namespace sl {

enum class DatasetKind : std::uint32_t { kImageFolder = 0, kMix = 1, kItems = 2 };
enum class OrderPolicy : std::uint32_t { kStrict = 0, kReady = 1 };
enum class ErrorPolicy : std::uint32_t { kRefill = 0, kPlaceholder = 1, kFail = 2 };
enum class Share : std::uint32_t { kAuto = 0, kPrivate = 1 };

// A folder, and what is wanted of it.
struct FolderSpec {
    std::string path;  // as the client wrote it
    Subset subset;
    bool operator==(const FolderSpec&) const = default;
};

struct Spec {
    DatasetKind kind = DatasetKind::kImageFolder;
    std::vector<FolderSpec> parts = std::vector<FolderSpec>(1);  // of a mix; the one folder; of items none
    std::vector<double> weights;                                 // of a mix: one a part, or none
    ItemsSpec items;                                             // of kind items

    // Includes `profile` and `dataset.max_pixels`. With no op that sets a size, height and width are 0, and
    // the daemon sets them to its first picture's (see draws.h, has_fixed_size).
    Pipeline pipeline;
    Dtype dtype = Dtype::kFloat32;
    Layout layout = Layout::kNchw;

    BatchRules batch;  // keys `batch` and `shard`

    bool shuffle = true;
    std::uint64_t seed = 0;
    OrderPolicy order_policy = OrderPolicy::kStrict;

    ErrorPolicy error_policy = ErrorPolicy::kRefill;
    std::uint64_t max_failures = 100;  // failed samples in a stream
    double max_rate = 0.01;            // failed samples / samples asked for

    std::uint64_t epochs = 1;
    Share share = Share::kAuto;
    bool explain = false;  // add each sample's draws to the batch

    bool operator==(const Spec&) const = default;
};

inline constexpr std::size_t kMaxSpecBytes = 1U << 16;

// kSpec for a document that is not a spec; kUnsupported for a lawful one that this build cannot serve.
Result<Spec> parse_spec(std::string_view json);

// The whole document with every key filled in, on one line, keys always in the same order: two specs are
// equal if and only if their documents are. parse_spec(to_json(s)) == s.
std::string to_json(const Spec& spec);

// What people call the dataset: its folder, those of its parts, or the items' own name.
std::string dataset_name(const Spec& spec);

}  // namespace sl
