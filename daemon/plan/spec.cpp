// Parses a spec; see spec.h. Pure, any thread; every failure is an Error with one sentence.
#include "daemon/plan/spec.h"

#include <array>

#include "daemon/plan/random.h"
#include "daemon/plan/spec_dataset.h"
#include "daemon/plan/spec_items.h"
#include "daemon/plan/spec_pipeline.h"

namespace sl {
namespace {

constexpr std::uint64_t kLargestCount = 1ULL << 53;  // every JSON reader keeps whole numbers up to here
constexpr double kLongestTimeout = 7 * 86400;        // seconds

void read_output(const Json* value, Spec& spec, Problem& problem) {
    static constexpr std::array<std::string_view, 2> kKeys{"dtype", "layout"};
    Section section(value, "output", kKeys, problem);
    spec.dtype = section.choice("dtype", kOutputDtypes);
    spec.layout = section.choice("layout", kLayouts);
    if (spec.dtype == Dtype::kUint8 && spec.pipeline.has_normalize != 0) {
        problem.report(
            "output.dtype is \"uint8\", which cannot hold what normalize makes: drop normalize, "
            "or use float32, float16 or bfloat16");
    }
}

void read_batch(const Json* batch, const Json* shard, BatchRules& rules, Problem& problem) {
    static constexpr std::array<std::string_view, 2> kBatchKeys{"size", "last"};
    Section section(batch, "batch", kBatchKeys, problem);
    rules.size = static_cast<std::uint32_t>(section.whole("size", rules.size, 1, kMaxBatchSize));
    rules.last = section.choice("last", kLastBatches);

    static constexpr std::array<std::string_view, 3> kShardKeys{"rank", "world_size", "uneven"};
    Section ranks(shard, "shard", kShardKeys, problem);
    rules.world_size = static_cast<std::uint32_t>(ranks.whole("world_size", 1, 1, kMaxWorldSize));
    rules.rank = static_cast<std::uint32_t>(ranks.whole("rank", 0, 0, kMaxWorldSize - 1));
    rules.uneven = ranks.choice("uneven", kUnevens);
    if (rules.rank >= rules.world_size) {
        problem.report("shard.rank is " + std::to_string(rules.rank) +
                       ", allowed: less than shard.world_size " + std::to_string(rules.world_size));
    }
}

void read_order(const Json* value, Spec& spec, Problem& problem) {
    static constexpr std::array<std::string_view, 3> kKeys{"shuffle", "seed", "policy"};
    Section section(value, "order", kKeys, problem);
    spec.shuffle = section.flag("shuffle", spec.shuffle);
    spec.seed = section.whole("seed", spec.seed, 0, UINT64_MAX);
    spec.order_policy = section.choice("policy", kOrderPolicies);
    if (spec.kind == DatasetKind::kItems && spec.shuffle) {
        problem.report("order.shuffle is true, allowed: false, for the order of items is given with them");
    }
}

void read_errors(const Json* value, Spec& spec, Problem& problem) {
    static constexpr std::array<std::string_view, 4> kKeys{"policy", "max_failures", "max_rate", "timeout_s"};
    const bool items = spec.kind == DatasetKind::kItems;
    Section section(value, "errors", std::span(kKeys).first(items ? 4 : 3), problem);
    spec.error_policy = section.choice("policy", kErrorPolicies);
    spec.max_failures = section.whole("max_failures", spec.max_failures, 0, kLargestCount);
    spec.max_rate = section.number("max_rate", spec.max_rate, 0, 1);
    if (items) spec.items.timeout_s = section.number("timeout_s", 0, 0, kLongestTimeout);
}

void read_epochs(Section& root, Spec& spec, Problem& problem) {
    spec.epochs = root.whole("epochs", spec.epochs, 1, kEpochLimit);
    if (spec.kind == DatasetKind::kItems && spec.epochs != 1) {
        problem.report("epochs is " + std::to_string(spec.epochs) +
                       ", allowed: 1, for each epoch of items is a stream of its own");
    }
}

void read_pictures(Section& root, Spec& spec, Problem& problem) {
    spec.pipeline.profile = root.choice("profile", kProfiles);
    read_pipeline(root.find("pipeline"), spec.pipeline, problem);
    read_output(root.find("output"), spec, problem);
    spec.explain = root.flag("explain", spec.explain);
}

}  // namespace

Result<Spec> parse_spec(std::string_view json) {
    const Result<Json> document = parse_document(json, "the spec", kMaxSpecBytes);
    if (!document) return std::unexpected(document.error());

    static constexpr std::array<std::string_view, 11> kKeys{"dataset", "pipeline", "output", "batch",
                                                            "order",   "shard",    "errors", "epochs",
                                                            "profile", "share",    "explain"};
    static constexpr std::array<std::string_view, 8> kItemKeys{"dataset", "rows",   "batch", "order",
                                                               "errors",  "epochs", "share", "collate"};
    Problem problem;
    Spec spec;
    const auto dataset = document->find("dataset");
    const bool items = dataset != document->end() && is_kind(&*dataset, DatasetKind::kItems);
    if (items) refuse_for_items(*document, problem);
    Section root(&*document, "", items ? std::span<const std::string_view>(kItemKeys) : kKeys, problem);
    read_dataset(root.find("dataset"), spec, problem);
    if (items) {
        read_rows(root.find("rows"), spec.items, problem);
        read_collate(root.find("collate"), spec.items, problem);
    } else {
        read_pictures(root, spec, problem);
    }
    read_batch(root.find("batch"), root.find("shard"), spec.batch, problem);
    read_order(root.find("order"), spec, problem);
    read_errors(root.find("errors"), spec, problem);
    read_epochs(root, spec, problem);
    spec.share = root.choice("share", kShares);
    if (problem.error()) return std::unexpected(*problem.error());
    return spec;
}

}  // namespace sl
