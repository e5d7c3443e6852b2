// Reads and compares saved positions; see position.h. Pure, any thread.
#include "daemon/plan/position.h"

#include <array>

#include "daemon/plan/random.h"
#include "daemon/plan/spec_reader.h"
#include "shm/messages.h"

namespace sl {
namespace {

constexpr std::uint64_t kFormat = 1;
constexpr std::uint64_t kMaxGlobalBatch = std::uint64_t{kMaxBatchSize} * kMaxWorldSize;
// Steps are counted from epoch 0; beyond, a stream could come to the end of 64 bits.
constexpr std::uint64_t kMaxStep = 1ULL << 63;

constexpr std::array<std::string_view, 10> kKeys{
    "speedyloader_state", "dataset", "samples", "seed", "shuffle", "order",
    "global_batch",       "last",    "epoch",   "batch"};

// First of all: a later format may have other keys, and then its number is what matters.
void check_format(const Json& document, Problem& problem) {
    if (!document.is_object()) return;
    const auto found = document.find(kKeys[0]);
    if (found == document.end()) {
        problem.report("state.speedyloader_state is missing: this is not a saved position");
    } else if (!found->is_number_unsigned() || found->get<std::uint64_t>() != kFormat) {
        problem.report("state.speedyloader_state is " + describe(*found) +
                       ", allowed: " + std::to_string(kFormat) + ", the format that this daemon reads");
    }
}

// The differences of two plans, each with both values.
class Differences {
  public:
    void add(std::string_view key, const std::string& saved, const std::string& here) {
        if (saved == here) return;
        if (!text_.empty()) text_ += "; ";
        text_ += std::string(key) + " is " + saved + " in the state and " + here + " here";
    }
    void add(std::string_view key, std::uint64_t saved, std::uint64_t here) {
        add(key, std::to_string(saved), std::to_string(here));
    }
    [[nodiscard]] const std::string& text() const { return text_; }

  private:
    std::string text_;
};

Result<void> check_same_plan(const SavedPosition& saved, const SavedPosition& start, OnChange on_change) {
    auto flag = [](bool value) { return std::string(value ? "true" : "false"); };
    Differences differences;
    if (on_change == OnChange::kRefuse) {
        differences.add("dataset", hex(saved.dataset), hex(start.dataset));
        differences.add("samples", saved.samples, start.samples);
    }
    differences.add("seed", saved.seed, start.seed);
    differences.add("shuffle", flag(saved.shuffle), flag(start.shuffle));
    differences.add("order", saved.order, start.order);
    differences.add("global_batch", saved.global_batch, start.global_batch);
    differences.add("last", std::string(name_of(kLastBatches, saved.last)),
                    std::string(name_of(kLastBatches, start.last)));
    if (differences.text().empty()) return {};
    const bool same_data =
        on_change == OnChange::kAllow || (saved.dataset == start.dataset && saved.samples == start.samples);
    return fail(Status::kSpec, std::string("the state is of another ") + (same_data ? "order" : "dataset") +
                                   ": " + differences.text());
}

Result<void> check_exists(const SavedPosition& saved, std::uint64_t epochs, std::uint64_t batches) {
    if (saved.epoch > epochs) {
        return fail(Status::kSpec, "state.epoch is " + std::to_string(saved.epoch) +
                                       ", allowed: at most the spec's epochs, " + std::to_string(epochs));
    }
    if (saved.epoch == epochs && saved.batch > 0) {
        return fail(Status::kSpec, "state.batch is " + std::to_string(saved.batch) +
                                       ", allowed: 0, because state.epoch is the end of the last epoch");
    }
    if (saved.batch >= batches) {
        return fail(Status::kSpec, "state.batch is " + std::to_string(saved.batch) +
                                       ", allowed: less than the batches of an epoch, " +
                                       std::to_string(batches));
    }
    if (saved.epoch > (kMaxStep - saved.batch) / batches) {
        return fail(Status::kSpec, "state.epoch is " + std::to_string(saved.epoch) +
                                       ": more batches than can be counted would lie before it");
    }
    return {};
}

}  // namespace

SavedPosition start_of(const Spec& spec, std::uint64_t dataset, std::uint64_t samples) {
    return {.dataset = dataset,
            .samples = samples,
            .seed = spec.seed,
            .shuffle = spec.shuffle,
            .global_batch = std::uint64_t{spec.batch.size} * spec.batch.world_size,
            .last = spec.batch.last};
}

Result<SavedPosition> parse_position(std::string_view json) {
    const Result<Json> document = parse_document(json, "the state", SL_OPEN_STATE_MAX);
    if (!document) return std::unexpected(document.error());
    Problem problem;
    check_format(*document, problem);
    Section section(&*document, "state", kKeys, problem);
    section.require(kKeys);
    SavedPosition saved;
    saved.dataset = section.hex_digits("dataset");
    saved.samples = section.whole("samples", 1, 1, kMaxSamples);
    saved.seed = section.whole("seed", 0, 0, UINT64_MAX);
    saved.shuffle = section.flag("shuffle", true);
    saved.order = static_cast<std::uint32_t>(section.whole("order", 1, 1, UINT32_MAX));
    saved.global_batch = section.whole("global_batch", 1, 1, kMaxGlobalBatch);
    saved.last = section.choice("last", kLastBatches);
    saved.epoch = section.whole("epoch", 0, 0, kEpochLimit);
    saved.batch = section.whole("batch", 0, 0, kMaxSamples);
    if (problem.error()) return std::unexpected(*problem.error());
    return saved;
}

Result<void> check_position(const SavedPosition& saved, const SavedPosition& start, const Spec& spec,
                            std::uint64_t batches_per_epoch, OnChange on_change) {
    if (auto same = check_same_plan(saved, start, on_change); !same) return same;
    if (auto exists = check_exists(saved, spec.epochs, batches_per_epoch); !exists) return exists;
    if (saved.batch > 0 && spec.order_policy == OrderPolicy::kReady) {
        return fail(Status::kUnsupported,
                    "state.batch is " + std::to_string(saved.batch) +
                        ": a stream whose batches hold what finished first (order.policy \"ready\", sample "
                        "level) can only begin at an epoch's start");
    }
    return {};
}

}  // namespace sl
