// Parses a spec; see spec.h. Pure, any thread; every failure is an Error with one sentence.
#include "daemon/plan/spec.h"

#include <array>

#include "daemon/plan/random.h"
#include "daemon/plan/spec_dataset.h"
#include "daemon/plan/spec_pipeline.h"

namespace sl {
namespace {

constexpr std::uint64_t kLargestCount = 1ULL << 53;  // every JSON reader keeps whole numbers up to here

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
}

void read_errors(const Json* value, Spec& spec, Problem& problem) {
    static constexpr std::array<std::string_view, 3> kKeys{"policy", "max_failures", "max_rate"};
    Section section(value, "errors", kKeys, problem);
    spec.error_policy = section.choice("policy", kErrorPolicies);
    spec.max_failures = section.whole("max_failures", spec.max_failures, 0, kLargestCount);
    spec.max_rate = section.number("max_rate", spec.max_rate, 0, 1);
}

}  // namespace

Result<Spec> parse_spec(std::string_view json) {
    const Result<Json> document = parse_document(json, "the spec", kMaxSpecBytes);
    if (!document) return std::unexpected(document.error());

    static constexpr std::array<std::string_view, 11> kKeys{"dataset", "pipeline", "output", "batch",
                                                            "order",   "shard",    "errors", "epochs",
                                                            "profile", "share",    "explain"};
    Problem problem;
    Spec spec;
    Section root(&*document, "", kKeys, problem);
    read_dataset(root.find("dataset"), spec, problem);
    spec.pipeline.profile = root.choice("profile", kProfiles);
    read_pipeline(root.find("pipeline"), spec.pipeline, problem);
    read_output(root.find("output"), spec, problem);
    read_batch(root.find("batch"), root.find("shard"), spec.batch, problem);
    read_order(root.find("order"), spec, problem);
    read_errors(root.find("errors"), spec, problem);
    spec.epochs = root.whole("epochs", spec.epochs, 1, kEpochLimit);
    spec.share = root.choice("share", kShares);
    spec.explain = root.flag("explain", spec.explain);
    if (problem.error()) return std::unexpected(*problem.error());
    return spec;
}

}  // namespace sl
