// Writes a spec as its canonical JSON document; see spec.h. Pure, any thread, cannot fail.
#include <charconv>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "daemon/plan/spec_names.h"

namespace sl {
namespace {

using Json = nlohmann::ordered_json;  // keeps the keys in the order they are set

Json word(std::string_view name) {
    return std::string(name);
}

// The shortest decimal that is this float, so that a mean of 0.485 is written as 0.485.
Json number(float v) {
    char text[32];
    const auto end = std::to_chars(text, text + sizeof text - 1, v).ptr;
    *end = '\0';
    return std::strtod(text, nullptr);
}

Json numbers(const float* values, std::uint32_t count) {
    Json out = Json::array();
    for (std::uint32_t i = 0; i < count; ++i)
        out.push_back(number(values[i]));
    return out;
}

Json size_of(const Op& op) {
    if (op.width == 0) return op.height;
    return Json::array({op.height, op.width});
}

Json op_json(const Op& op, const Pipeline& pipeline) {
    Json out;
    out["op"] = word(name_of(kOpKinds, op.kind));
    switch (op.kind) {
        case OpKind::kDecode:
            out["channels"] = op.channels;
            break;
        case OpKind::kRandomResizedCrop:
            out["size"] = size_of(op);
            out["scale"] = Json::array({op.scale[0], op.scale[1]});
            out["ratio"] = Json::array({op.ratio[0], op.ratio[1]});
            break;
        case OpKind::kResize:
        case OpKind::kCenterCrop:
            out["size"] = size_of(op);
            break;
        case OpKind::kRandomHorizontalFlip:
            out["p"] = op.probability;
            break;
        case OpKind::kNormalize:
            out["mean"] = numbers(pipeline.mean, pipeline.channels);
            out["std"] = numbers(pipeline.std, pipeline.channels);
            break;
    }
    return out;
}

Json subset_json(const Subset& subset) {
    Json out;
    if (subset.kind == SubsetKind::kFraction) out["fraction"] = subset.fraction;
    if (subset.kind == SubsetKind::kIds) out["ids"] = subset.ids;
    if (subset.kind == SubsetKind::kLabels) {
        out["labels"] = Json::array();
        for (const Subset::Label& label : subset.labels)
            std::visit([&](const auto& name) { out["labels"].push_back(name); }, label);
    }
    return out;
}

void add_subset(Json& out, const Subset& subset) {
    if (subset.kind != SubsetKind::kWhole) out["subset"] = subset_json(subset);
}

Json folder_json(const FolderSpec& folder) {
    Json out;
    out["kind"] = word(name_of(kDatasetKinds, DatasetKind::kImageFolder));
    out["path"] = folder.path;
    return out;
}

Json dataset_json(const Spec& spec) {
    if (spec.kind == DatasetKind::kImageFolder) {
        Json out = folder_json(spec.parts.front());
        out["max_pixels"] = spec.pipeline.max_pixels;
        add_subset(out, spec.parts.front().subset);
        return out;
    }
    Json out;
    out["kind"] = word(name_of(kDatasetKinds, spec.kind));
    out["parts"] = Json::array();
    for (const FolderSpec& part : spec.parts) {
        out["parts"].push_back(folder_json(part));
        add_subset(out["parts"].back(), part.subset);
    }
    if (!spec.weights.empty()) out["weights"] = spec.weights;
    out["max_pixels"] = spec.pipeline.max_pixels;
    return out;
}

void add_pictures(Json& out, const Spec& spec) {
    out["pipeline"] = Json::array();
    for (std::uint32_t i = 0; i < spec.pipeline.op_count; ++i) {
        out["pipeline"].push_back(op_json(spec.pipeline.ops[i], spec.pipeline));
    }
    out["output"]["dtype"] = word(name_of(kOutputDtypes, spec.dtype));
    out["output"]["layout"] = word(name_of(kLayouts, spec.layout));
}

void add_items(Json& out, const ItemsSpec& items) {
    out["dataset"]["kind"] = word(name_of(kDatasetKinds, DatasetKind::kItems));
    out["dataset"]["count"] = items.count;
    out["dataset"]["name"] = items.name;
    out["dataset"]["crew"] = hex(items.crew);
    out["dataset"]["epoch"] = items.epoch;
    out["rows"] = Json::array();
    for (const RowField& field : items.rows) {
        Json row;
        row["name"] = field.name;
        row["dtype"] = items.opaque ? Json("bytes") : word(name_of(kRowDtypes, field.dtype));
        if (items.opaque) {
            row["capacity"] = field.shape.front();
        } else {
            row["shape"] = field.shape;
        }
        out["rows"].push_back(std::move(row));
    }
    if (items.collate_bytes != 0) out["collate"]["capacity"] = items.collate_bytes;
}

}  // namespace

std::string dataset_name(const Spec& spec) {
    if (spec.kind == DatasetKind::kItems) return spec.items.name;
    std::string name;
    for (const FolderSpec& part : spec.parts)
        name += (name.empty() ? "" : " + ") + part.path;
    return name;
}

std::string to_json(const Spec& spec) {
    const bool items = spec.kind == DatasetKind::kItems;
    Json out;
    if (items) {
        add_items(out, spec.items);
    } else {
        out["dataset"] = dataset_json(spec);
        add_pictures(out, spec);
    }
    out["batch"]["size"] = spec.batch.size;
    out["batch"]["last"] = word(name_of(kLastBatches, spec.batch.last));
    out["order"]["shuffle"] = spec.shuffle;
    out["order"]["seed"] = spec.seed;
    out["order"]["policy"] = word(name_of(kOrderPolicies, spec.order_policy));
    if (!items) {
        out["shard"]["rank"] = spec.batch.rank;
        out["shard"]["world_size"] = spec.batch.world_size;
        out["shard"]["uneven"] = word(name_of(kUnevens, spec.batch.uneven));
    }
    out["errors"]["policy"] = word(name_of(kErrorPolicies, spec.error_policy));
    out["errors"]["max_failures"] = spec.max_failures;
    out["errors"]["max_rate"] = spec.max_rate;
    if (items) out["errors"]["timeout_s"] = spec.items.timeout_s;
    out["epochs"] = spec.epochs;
    if (!items) out["profile"] = word(name_of(kProfiles, spec.pipeline.profile));
    out["share"] = word(name_of(kShares, spec.share));
    if (!items) out["explain"] = spec.explain;
    // A path that is not UTF-8 cannot come out of parse_spec; one set by hand must not throw here.
    return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace sl
