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

Result<std::uint64_t> label_of(const FolderSource& folder, const Subset::Label& wanted,
                               const std::string& key) {
    const auto& classes = folder.classes();
    if (const auto* name = std::get_if<std::string>(&wanted)) {
        const auto found = std::ranges::find(classes, *name);
        if (found != classes.end()) return static_cast<std::uint64_t>(found - classes.begin());
        return fail(Status::kSpec,
                    key + ".labels has \"" + *name + "\", which is no class; classes: " + some_of(classes));
    }
    const std::uint64_t label = std::get<std::uint64_t>(wanted);
    if (label < classes.size()) return label;
    return fail(Status::kSpec, key + ".labels has " + std::to_string(label) +
                                   ", allowed: less than the number of classes, " +
                                   std::to_string(classes.size()));
}

// Ids are sorted by class, so that a class is one run of them.
Result<Selection> select_labels(const FolderSource& folder, const std::vector<Subset::Label>& wanted,
                                const std::string& key) {
    std::set<std::uint64_t> labels;
    for (const Subset::Label& one : wanted) {
        auto label = label_of(folder, one, key);
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
    if (runs.empty()) return fail(Status::kSpec, key + ".labels: none of these classes has a sample");
    return Selection::of_runs(folder.size(), runs);
}

Result<Selection> select(const FolderSource& folder, const Subset& subset, const std::string& key) {
    switch (subset.kind) {
        case SubsetKind::kFraction:
            return Selection::of_fraction(folder.size(), subset.fraction, key);
        case SubsetKind::kIds:
            return Selection::of_ids(folder.size(), subset.ids, key);
        case SubsetKind::kLabels:
            return select_labels(folder, subset.labels, key);
        default:
            return Selection(folder.size());
    }
}

}  // namespace

Result<std::shared_ptr<const Dataset>> Dataset::scan(const std::string& path, const FolderOptions& options) {
    auto folder = FolderSource::scan(path, options);
    if (!folder) return std::unexpected(std::move(folder).error());
    const std::uint64_t size = folder->size();
    std::shared_ptr<Dataset> made(new Dataset);
    made->parts_.push_back({std::move(*folder),
                            mount_of(path, options.reach.get()),
                            options.reach,
                            std::make_shared<const Selection>(size),
                            0,
                            size,
                            {}});
    made->name_classes();
    return made;
}

// A folder's source is its manifest, which all that are made of it share.
Result<std::shared_ptr<const Dataset>> Dataset::compose(
    const Spec& spec, const std::vector<std::shared_ptr<const Dataset>>& folders) {
    const bool mixed = spec.kind == DatasetKind::kMix;
    if (!mixed && spec.parts.front().subset.kind == SubsetKind::kWhole) return folders.front();
    std::shared_ptr<Dataset> made(new Dataset);
    std::vector<Selection> selections;
    for (std::size_t i = 0; i < folders.size(); ++i) {
        const std::string key =
            mixed ? "dataset.parts[" + std::to_string(i) + "].subset" : std::string(kSubsetKey);
        Part part = folders[i]->parts_.front();
        auto selection = select(part.folder, spec.parts[i].subset, key);
        if (!selection) return std::unexpected(std::move(selection).error());
        part.samples = selection->size();
        part.selection = std::make_shared<const Selection>(*selection);
        selections.push_back(std::move(*selection));
        made->parts_.push_back(std::move(part));
    }
    if (mixed) {
        auto mix = Mix::make(std::move(selections), spec.weights);
        if (!mix) return std::unexpected(std::move(mix).error());
        made->mix_ = std::make_shared<const Mix>(std::move(*mix));
        for (std::size_t i = 0; i < made->parts_.size(); ++i) {
            made->parts_[i].first_id = made->mix_->parts()[i].first_id;
            made->parts_[i].samples = made->mix_->parts()[i].count;
        }
    }
    made->name_classes();
    return made;
}

// The classes of all parts, by name; of one folder those are its own, numbered as they are.
void Dataset::name_classes() {
    std::set<std::string> names;
    for (const Part& part : parts_)
        names.insert(part.folder.classes().begin(), part.folder.classes().end());
    classes_.assign(names.begin(), names.end());
    for (Part& part : parts_) {
        part.labels.clear();
        for (const std::string& name : part.folder.classes())
            part.labels.push_back(std::ranges::lower_bound(classes_, name) - classes_.begin());
    }
}

std::shared_ptr<const Dataset> Dataset::of_items(const std::string& name,
                                                 std::shared_ptr<const ItemOrder> order) {
    std::shared_ptr<Dataset> made(new Dataset);
    made->items_ = std::move(order);
    made->items_name_ = name;
    return made;
}

std::uint64_t Dataset::samples() const {
    if (items_) return items_->size();
    return mix_ ? mix_->size() : parts_.front().samples;
}

void Dataset::path(std::uint64_t id, std::string& out) const {
    if (items_) {
        out = items_name_ + "[" + std::to_string(items_->item(id)) + "]";
        return;
    }
    const Part& part = part_of(id);
    part.folder.path(id - part.first_id, out);
}

std::uint64_t Dataset::size() const {
    if (items_) return items_->size();
    const Part& last = parts_.back();
    return last.first_id + last.folder.size();
}

Sequence Dataset::sequence(std::uint64_t seed, std::uint64_t epoch, bool shuffle) const {
    if (items_) return Order(items_->size(), seed, epoch, false);
    if (mix_) return Sequence(std::make_shared<const MixOrder>(mix_, seed, epoch, shuffle));
    const auto& selection = parts_.front().selection;
    return {Order(selection->size(), seed, epoch, shuffle), selection};
}

std::uint64_t Dataset::fingerprint() const {
    if (items_) return items_->fingerprint();
    std::vector<std::uint64_t> parts;
    for (const Part& part : parts_)
        parts.push_back(part.selection->fingerprint(part.folder.fingerprint()));
    return mix_ ? mix_->fingerprint(parts) : parts.front();
}

std::uint32_t format_hint(std::string_view path) {
    auto dot = path.rfind('.');
    if (dot == std::string_view::npos) return 0;
    std::string extension(path.substr(dot + 1));
    std::ranges::transform(extension, extension.begin(), [](unsigned char c) { return std::tolower(c); });
    constexpr struct {
        std::string_view names;  // with a space before and behind each
        std::uint32_t number;
    } kFormats[] = {{" jpg jpeg jpe jfif ", 1}, {" png ", 2}, {" gif ", 3},  {" webp ", 4},
                    {" tif tiff ", 5},          {" bmp ", 6}, {" heic ", 7}, {" avif ", 8},
                    {" pbm pgm ppm pnm ", 9}};
    extension = " " + extension + " ";
    const auto* found = std::ranges::find_if(
        kFormats, [&](const auto& format) { return format.names.find(extension) != std::string_view::npos; });
    return found == std::end(kFormats) ? 0 : found->number;
}

}  // namespace sl
