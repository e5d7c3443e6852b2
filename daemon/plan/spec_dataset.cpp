// Parses a spec's dataset; see spec_dataset.h. Pure, any thread.
#include "daemon/plan/spec_dataset.h"

#include <algorithm>
#include <array>

#include "daemon/plan/decode_memory.h"
#include "daemon/plan/mix.h"
#include "daemon/plan/spec_items.h"

namespace sl {
namespace {

template <std::size_t N>
DatasetKind read_kind(Section& section, const Named<DatasetKind> (&kinds)[N], Problem& problem) {
    const Json* value = section.find("kind");
    if (value != nullptr && value->is_string()) {
        for (const std::string_view later : kLaterDatasetKinds) {
            if (value->get_ref<const std::string&>() != later) continue;
            std::array<std::string_view, N> built;
            std::ranges::transform(kinds, built.begin(), &Named<DatasetKind>::name);
            problem.report(Status::kUnsupported, section.path_of("kind") + " " + describe(*value) +
                                                     " is not built yet; built: " + join(built));
        }
    }
    return section.choice("kind", kinds);
}

void read_fraction(Section& section, Subset& subset) {
    const Json& value = *section.find("fraction");
    subset.kind = SubsetKind::kFraction;
    if (value.is_number()) subset.fraction = value.get<double>();
    if (value.is_number() && subset.fraction > 0 && subset.fraction <= 1) return;
    section.report("fraction", value, "a number above 0 and at most 1");
}

void read_ids(Section& section, Subset& subset, Problem& problem) {
    const Json& value = *section.find("ids");
    subset.kind = SubsetKind::kIds;
    const bool fits = value.is_array() && !value.empty() &&
                      std::ranges::all_of(value, [](const Json& id) { return id.is_number_unsigned(); });
    if (!fits) return section.report("ids", value, "an array of sample ids, at least one");
    subset.ids = value.get<std::vector<std::uint64_t>>();
    std::ranges::sort(subset.ids);
    const auto twice = std::ranges::adjacent_find(subset.ids);
    if (twice == subset.ids.end()) return;
    problem.report(section.path_of("ids") + " has " + std::to_string(*twice) +
                   " twice, allowed: each id once");
}

void read_labels(Section& section, Subset& subset) {
    const Json& value = *section.find("labels");
    subset.kind = SubsetKind::kLabels;
    const bool fits = value.is_array() && !value.empty() && std::ranges::all_of(value, [](const Json& label) {
                          return label.is_number_unsigned() || label.is_string();
                      });
    if (!fits) return section.report("labels", value, "an array of class names or labels, at least one");
    for (const Json& label : value) {
        if (label.is_string()) {
            subset.labels.emplace_back(label.get<std::string>());
        } else {
            subset.labels.emplace_back(label.get<std::uint64_t>());
        }
    }
}

Subset read_subset(const Json* value, const std::string& path, Problem& problem) {
    static constexpr std::array<std::string_view, 3> kKeys{"fraction", "ids", "labels"};
    Subset subset;
    if (value == nullptr) return subset;
    Section section(value, path, kKeys, problem);
    if (value->is_object() && value->size() != 1) {
        problem.report(path + " has " + std::to_string(value->size()) + " keys, allowed: one of " +
                       join(kKeys));
    }
    if (problem.error()) return subset;
    if (section.find("fraction") != nullptr) read_fraction(section, subset);
    if (section.find("ids") != nullptr) read_ids(section, subset, problem);
    if (section.find("labels") != nullptr) read_labels(section, subset);
    return subset;
}

void read_folder(Section& section, FolderSpec& folder, Problem& problem) {
    folder.path = section.text("path");
    folder.subset = read_subset(section.find("subset"), section.path_of("subset"), problem);
}

void read_parts(Section& dataset, Spec& spec, Problem& problem) {
    static constexpr std::array<std::string_view, 3> kKeys{"kind", "path", "subset"};
    static constexpr Named<DatasetKind> kKinds[] = {kDatasetKinds[0]};
    static constexpr std::array<std::string_view, 1> kRequired{"parts"};
    dataset.require(kRequired);
    const Json* parts = dataset.find("parts");
    if (parts == nullptr) return;
    if (!parts->is_array() || parts->empty() || parts->size() > kMaxParts) {
        return dataset.report("parts", *parts, "an array of 1 to " + std::to_string(kMaxParts) + " folders");
    }
    spec.parts.clear();
    for (const Json& part : *parts) {
        const std::string path = dataset.path_of("parts[" + std::to_string(spec.parts.size()) + "]");
        if (is_kind(&part, DatasetKind::kMix))
            problem.report(path + ".kind is \"mix\", allowed: image_folder, no mix within a mix");
        Section section(&part, path, kKeys, problem);
        read_kind(section, kKinds, problem);
        read_folder(section, spec.parts.emplace_back(), problem);
    }
}

void read_weights(Section& dataset, Spec& spec) {
    const Json* weights = dataset.find("weights");
    if (weights == nullptr) return;
    const bool fits =
        weights->is_array() && weights->size() == spec.parts.size() &&
        std::ranges::all_of(*weights, [](const Json& w) { return w.is_number() && w.get<double>() > 0; });
    if (!fits) {
        return dataset.report(
            "weights", *weights,
            "a number above 0 for each part, " + std::to_string(spec.parts.size()) + " in all");
    }
    spec.weights = weights->get<std::vector<double>>();
}

}  // namespace

bool is_kind(const Json* dataset, DatasetKind kind) {
    if (dataset == nullptr || !dataset->is_object()) return false;
    const auto found = dataset->find("kind");
    return found != dataset->end() && *found == name_of(kDatasetKinds, kind);
}

void read_dataset(const Json* value, Spec& spec, Problem& problem) {
    static constexpr std::array<std::string_view, 4> kFolderKeys{"kind", "path", "max_pixels", "subset"};
    static constexpr std::array<std::string_view, 4> kMixKeys{"kind", "parts", "weights", "max_pixels"};
    if (value == nullptr) return problem.report("dataset is missing");
    if (is_kind(value, DatasetKind::kItems)) return read_items(*value, spec, problem);
    const bool mix = is_kind(value, DatasetKind::kMix);
    if (mix && value->contains("subset")) {
        problem.report(
            "dataset.subset is no key of a mix: say of each part what is wanted of it, as in "
            "dataset.parts[0].subset");
    }
    Section section(value, "dataset", mix ? kMixKeys : kFolderKeys, problem);
    spec.kind = read_kind(section, kDatasetKinds, problem);
    spec.pipeline.max_pixels = section.whole("max_pixels", spec.pipeline.max_pixels, 1, kLargestMaxPixels);
    if (mix) {
        read_parts(section, spec, problem);
        read_weights(section, spec);
    } else {
        read_folder(section, spec.parts.front(), problem);
    }
}

}  // namespace sl
