#include "daemon/stream/dataset.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <ranges>
#include <set>

namespace sl {

namespace {

std::string some_of(const std::vector<std::string>& names) {
    constexpr std::size_t kShown = 8;
    std::string text;
    for (const std::string& name : names | std::views::take(kShown))
        text += (text.empty() ? "" : ", ") + name;
    return names.size() > kShown ? text + ", ..." : text;
}

Result<std::uint64_t> label_of(const FolderSource& folder, const Subset::Label& wanted) {
    const auto& classes = folder.classes();
    if (const auto* name = std::get_if<std::string>(&wanted)) {
        const auto found = std::ranges::find(classes, *name);
        if (found != classes.end()) return static_cast<std::uint64_t>(found - classes.begin());
        return fail(Status::kSpec, "dataset.subset.labels has \"" + *name +
                                       "\", which is no class; classes: " + some_of(classes));
    }
    const std::uint64_t label = std::get<std::uint64_t>(wanted);
    if (label < classes.size()) return label;
    return fail(Status::kSpec, "dataset.subset.labels has " + std::to_string(label) +
                                   ", allowed: less than the number of classes, " +
                                   std::to_string(classes.size()));
}

// Ids are sorted by class, so that a class is one run of them.
Result<Selection> select_labels(const FolderSource& folder, const std::vector<Subset::Label>& wanted) {
    std::set<std::uint64_t> labels;
    for (const Subset::Label& one : wanted) {
        auto label = label_of(folder, one);
        if (!label) return std::unexpected(std::move(label).error());
        labels.insert(*label);
    }
    const auto ids = std::views::iota(std::uint64_t{0}, folder.size());
    std::vector<Selection::Run> runs;
    for (const std::uint64_t label : labels) {
        const auto run = std::ranges::equal_range(ids, static_cast<std::int64_t>(label), {},
                                                  [&](std::uint64_t id) { return folder.label(id); });
        if (!run.empty()) runs.push_back({run.front(), static_cast<std::uint64_t>(run.size())});
    }
    if (runs.empty()) return fail(Status::kSpec, "dataset.subset.labels: none of these classes has a sample");
    return Selection::of_runs(folder.size(), runs);
}

Result<Selection> select(const FolderSource& folder, const Subset& subset) {
    switch (subset.kind) {
        case SubsetKind::kFraction:
            return Selection::of_fraction(folder.size(), subset.fraction);
        case SubsetKind::kIds:
            return Selection::of_ids(folder.size(), subset.ids);
        case SubsetKind::kLabels:
            return select_labels(folder, subset.labels);
        default:
            return Selection(folder.size());
    }
}

}  // namespace

Result<std::shared_ptr<const Dataset>> Dataset::scan(const std::string& path, const FolderOptions& options) {
    auto folder = FolderSource::scan(path, options);
    if (!folder) return std::unexpected(std::move(folder).error());
    Selection all(folder->size());
    return std::shared_ptr<const Dataset>(new Dataset(std::move(*folder), std::move(all), mount_of(path)));
}

// A folder's source is its manifest, which both share.
Result<std::shared_ptr<const Dataset>> Dataset::part(std::shared_ptr<const Dataset> whole,
                                                     const Subset& subset) {
    if (subset.kind == SubsetKind::kWhole) return whole;
    auto selection = select(whole->folder_, subset);
    if (!selection) return std::unexpected(std::move(selection).error());
    return std::shared_ptr<const Dataset>(new Dataset(whole->folder_, std::move(*selection), whole->mount_));
}

std::uint32_t format_hint(std::string_view path) {
    auto dot = path.rfind('.');
    if (dot == std::string_view::npos) return 0;
    std::string extension(path.substr(dot + 1));
    std::ranges::transform(extension, extension.begin(), [](unsigned char c) { return std::tolower(c); });
    constexpr std::array<std::string_view, 4> kJpeg = {"jpg", "jpeg", "jpe", "jfif"};
    if (std::ranges::find(kJpeg, extension) != kJpeg.end()) return 1;
    return extension == "png" ? 2 : 0;
}

}  // namespace sl
