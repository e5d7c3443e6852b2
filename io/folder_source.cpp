// See folder_source.h.
#include "io/folder_source.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

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

class Fnv1a {
  public:
    void add(std::string_view bytes) {
        for (char byte : bytes)
            add_byte(static_cast<unsigned char>(byte));
    }
    void add_byte(unsigned char byte) { hash_ = (hash_ ^ byte) * 0x100000001b3U; }
    void add_number(std::uint64_t number) {
        for (int shift = 0; shift < 64; shift += 8)
            add_byte(static_cast<unsigned char>(number >> shift));
    }
    [[nodiscard]] std::uint64_t value() const { return hash_; }

  private:
    std::uint64_t hash_ = 0xcbf29ce484222325U;
};

}  // namespace

Result<FolderSource> FolderSource::scan(const std::string& root, const FolderOptions& options) {
    auto scanned = scan_folder(root);
    if (!scanned) return std::unexpected(std::move(scanned.error()));
    const ImageCounts images = count_images(*scanned);
    const bool has_classes = std::any_of(scanned->class_folders.begin(), scanned->class_folders.end(),
                                         [](const auto& folder) { return folder.exists; });
    const bool flat = images.at_top > 0 && !has_classes;
    if (!flat) report_outside_class(*scanned);

    const std::string name = "dataset folder \"" + root + "\"";
    if (options.strict && unreadable(scanned->report) > 0) {
        return fail(Status::kDataset,
                    name + " has entries that cannot be read: " + scanned->report.summary());
    }
    if (!flat && images.in_classes == 0) {
        const char* hint = images.at_top > 0 ? " in its class folders" : "";
        return fail(Status::kDataset, name + " has no images" + hint + ": " + scanned->report.summary());
    }
    return FolderSource(root, std::move(*scanned), flat);
}

FolderSource::FolderSource(std::string root, FolderScan scan, bool flat) : root_(std::move(root)) {
    while (root_.size() > 1 && root_.back() == '/')
        root_.pop_back();
    std::vector<std::int64_t> labels(scan.class_folders.size(), kNoLabel);
    for (std::size_t i = 0; i < scan.class_folders.size() && !flat; ++i) {
        if (!scan.class_folders[i].exists) continue;
        labels[i] = static_cast<std::int64_t>(classes_.size());
        classes_.push_back(std::move(scan.class_folders[i].name));
    }
    if (flat) classes_.emplace_back();
    auto left_out = [flat](const auto& directory) {
        return (directory.class_folder == FolderScan::kNoClass) != flat;
    };
    std::erase_if(scan.directories, left_out);
    std::sort(scan.directories.begin(), scan.directories.end(), [](const auto& a, const auto& b) {
        return std::tie(a.class_folder, a.path) < std::tie(b.class_folder, b.path);
    });
    index(scan, labels);
    names_ = std::move(scan.names);
    names_.shrink_to_fit();
    report_ = std::move(scan.report);
    fingerprint_ = compute_fingerprint();
}

void FolderSource::index(const FolderScan& scan, const std::vector<std::int64_t>& labels) {
    std::uint64_t samples = 0;
    for (const auto& directory : scan.directories)
        samples += directory.count;
    name_offsets_.reserve(samples);
    directory_of_.reserve(samples);
    directories_.reserve(scan.directories.size());
    for (const auto& directory : scan.directories) {
        const bool at_top = directory.class_folder == FolderScan::kNoClass;
        auto first = scan.name_offsets.begin() + static_cast<std::ptrdiff_t>(directory.first);
        name_offsets_.insert(name_offsets_.end(), first,
                             first + static_cast<std::ptrdiff_t>(directory.count));
        directory_of_.insert(directory_of_.end(), directory.count,
                             static_cast<std::uint32_t>(directories_.size()));
        directories_.push_back({directory.path, at_top ? 0 : labels[directory.class_folder]});
    }
}

std::int64_t FolderSource::label(std::uint64_t id) const {
    return directories_[directory_of_[id]].label;
}

void FolderSource::path(std::uint64_t id, std::string& out) const {
    out = root_;
    if (out.back() != '/') out += '/';
    append_relative(id, out);
}

void FolderSource::relative_path(std::uint64_t id, std::string& out) const {
    out.clear();
    append_relative(id, out);
}

void FolderSource::append_relative(std::uint64_t id, std::string& out) const {
    const std::string& directory = directories_[directory_of_[id]].path;
    out += directory;
    if (!directory.empty()) out += '/';
    out += names_.c_str() + name_offsets_[id];
}

std::uint64_t FolderSource::compute_fingerprint() const {
    Fnv1a hash;
    for (const auto& name : classes_) {
        hash.add(name);
        hash.add_byte(0);
    }
    std::string path;
    for (std::uint64_t id = 0; id < size(); ++id) {
        relative_path(id, path);
        hash.add(path);
        hash.add_byte(0);
        hash.add_number(static_cast<std::uint64_t>(label(id)));
    }
    return hash.value();
}

}  // namespace sl
