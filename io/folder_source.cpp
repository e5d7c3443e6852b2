// See folder_source.h.
#include "io/folder_source.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#include "io/manifest_file.h"

namespace sl {

namespace {

constexpr std::int64_t kNoLabel = -1;

// Images in class folders, and images beside them.
struct ImageCounts {
    std::uint64_t in_classes = 0;
    std::uint64_t at_top = 0;
};

ImageCounts count_images(const FolderScan& scan) {
    ImageCounts counts;
    for (const auto& directory : scan.directories) {
        (directory.class_folder == FolderScan::kNoClass ? counts.at_top : counts.in_classes) +=
            directory.count;
    }
    return counts;
}

std::uint64_t unreadable(const ScanReport& report) {
    return report.of(SkipReason::kBroken).count + report.of(SkipReason::kDenied).count +
           report.of(SkipReason::kFailed).count;
}

void report_outside_class(FolderScan& scan) {
    for (const auto& directory : scan.directories) {
        if (directory.class_folder != FolderScan::kNoClass) continue;
        for (std::uint64_t i = 0; i < directory.count; ++i) {
            scan.report.add(SkipReason::kOutsideClass,
                            scan.names.c_str() + scan.name_offsets[directory.first + i]);
        }
    }
}

std::string without_slash(std::string root) {
    while (root.size() > 1 && root.back() == '/')
        root.pop_back();
    return root;
}

std::string name_of(const std::string& root) {
    return "dataset folder \"" + root + "\"";
}

std::unexpected<Error> unreadable_error(const std::string& root, const ScanReport& report) {
    return fail(Status::kDataset, name_of(root) + " has entries that cannot be read: " + report.summary());
}

// Orders the scan's directories as the samples are, without those that have none, and numbers the classes.
Result<Manifest> make_manifest(const std::string& root, FolderScan& scan, bool flat) {
    std::vector<std::string> classes;
    std::vector<std::int64_t> label_of(scan.class_folders.size(), kNoLabel);
    for (std::size_t i = 0; i < scan.class_folders.size() && !flat; ++i) {
        if (!scan.class_folders[i].exists) continue;
        label_of[i] = static_cast<std::int64_t>(classes.size());
        classes.push_back(scan.class_folders[i].name);
    }
    if (flat) classes.emplace_back();
    auto left_out = [flat](const auto& directory) {
        return (directory.class_folder == FolderScan::kNoClass) != flat;
    };
    std::erase_if(scan.directories, left_out);
    std::sort(scan.directories.begin(), scan.directories.end(), [](const auto& a, const auto& b) {
        return std::tie(a.class_folder, a.path) < std::tie(b.class_folder, b.path);
    });
    std::vector<std::int64_t> labels;
    labels.reserve(scan.directories.size());
    for (const auto& directory : scan.directories)
        labels.push_back(flat ? 0 : label_of[directory.class_folder]);
    return Manifest::build({without_slash(root), scan, labels, classes});
}

Result<Manifest> scan_anew(const std::string& root, const FolderOptions& options, bool& repeatable) {
    auto scanned = scan_folder(root, options.progress, options.reach.get());
    if (!scanned) return std::unexpected(std::move(scanned.error()));
    const ImageCounts images = count_images(*scanned);
    const bool has_classes = std::any_of(scanned->class_folders.begin(), scanned->class_folders.end(),
                                         [](const auto& folder) { return folder.exists; });
    const bool flat = images.at_top > 0 && !has_classes;
    if (!flat) report_outside_class(*scanned);
    if (options.strict && unreadable(scanned->report) > 0) return unreadable_error(root, scanned->report);
    if (!flat && images.in_classes == 0) {
        const char* hint = images.at_top > 0 ? " in its class folders" : "";
        return fail(Status::kDataset,
                    name_of(root) + " has no images" + hint + ": " + scanned->report.summary());
    }
    repeatable = scanned->repeatable;
    return make_manifest(root, *scanned, flat);
}

// The manifest of an earlier scan, in memory or in its file, if a new scan would find the same.
std::shared_ptr<const Manifest> recall(const std::string& root, const FolderOptions& options,
                                       ManifestUse& use) {
    std::shared_ptr<const Manifest> found = options.known;
    if (found && root == found->text(0) &&
        !first_change(root, found->witnesses(), found->text(0), options.reach.get())) {
        use.used = true;
        use.kept = !use.path.empty() && ::access(use.path.c_str(), R_OK) == 0;
        if (use.kept) touch_manifest(use.path);
        use.note = "it was in memory";
        return found;
    }
    if (use.path.empty()) return nullptr;
    auto loaded = load_manifest(use.path, root);
    if (!loaded) {
        use.note = loaded.error().message;
        return nullptr;
    }
    if (auto changed = first_change(root, loaded->witnesses(), loaded->text(0), options.reach.get())) {
        use.note = *changed + " has changed";
        return nullptr;
    }
    touch_manifest(use.path);
    use.used = use.kept = true;
    return std::make_shared<const Manifest>(std::move(*loaded));
}

void keep(const Manifest& manifest, bool repeatable, ManifestUse& use) {
    if (use.path.empty()) return;
    if (!repeatable) {
        use.note = "something in the folder is changing, or cannot be looked at";
    } else if (auto saved = save_manifest(use.path, manifest); !saved) {
        use.note = saved.error().message;
    } else {
        use.kept = true;
    }
}

}  // namespace

Result<FolderSource> FolderSource::scan(const std::string& root, const FolderOptions& options) {
    ManifestUse use;
    const std::string plain = without_slash(root);
    if (!options.manifest_folder.empty()) use.path = manifest_path(options.manifest_folder, plain);
    if (auto known = recall(plain, options, use)) {
        FolderSource source(std::move(known), std::move(use));
        if (options.strict && unreadable(source.report_) > 0) return unreadable_error(root, source.report_);
        return source;
    }
    bool repeatable = false;
    auto manifest = scan_anew(root, options, repeatable);
    if (!manifest) return std::unexpected(std::move(manifest).error());
    keep(*manifest, repeatable, use);
    return FolderSource(std::make_shared<const Manifest>(std::move(*manifest)), std::move(use));
}

FolderSource::FolderSource(std::shared_ptr<const Manifest> manifest, ManifestUse use)
    : manifest_(std::move(manifest)), use_(std::move(use)), report_(manifest_->report()) {
    for (std::uint64_t name : manifest_->class_names())
        classes_.emplace_back(manifest_->text(name));
}

void FolderSource::path(std::uint64_t id, std::string& out) const {
    out = manifest_->text(0);  // the root
    if (out.back() != '/') out += '/';
    append_relative(id, out);
}

void FolderSource::relative_path(std::uint64_t id, std::string& out) const {
    out.clear();
    append_relative(id, out);
}

void FolderSource::append_relative(std::uint64_t id, std::string& out) const {
    const char* directory = manifest_->text(manifest_->folder_of(id).path);
    out += directory;
    if (*directory != '\0') out += '/';
    out += manifest_->name(id);
}

}  // namespace sl
