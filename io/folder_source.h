// The dataset kind `image_folder`: class sub-folders of image files, each sample a path and a label.
//
// Classes are the sub-folders of the root, numbered by name; samples are ordered by (class, directory, name),
// all bytewise: the order of torchvision's ImageFolder, and the same on every host. A root without class
// folders that holds images itself (a flat folder) has one class, named "", with label 0. When there are
// class folders, images beside them belong to no class and are left out. Zero-byte files are samples: ids
// must not move, and reading one is an error of that sample. Which names are images, and what else is left
// out, is in folder_scan.h and in report().
//
// Made once, before a stream starts, by a blocking walk, or from the manifest of an earlier one if nothing
// has changed since; constant afterwards and safe to read from any thread. Both ways it reads from a manifest
// in memory, whose size is in manifest.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/manifest.h"
#include "shm/error.h"

namespace sl {

struct FolderOptions {
    bool strict = false;  // broken links, denied and failed entries are an error, not a line of the report
    std::string manifest_folder = {};            // where manifests are kept; empty: nowhere
    std::shared_ptr<const Manifest> known = {};  // of an earlier source, taken if it still holds
    ScanProgress* progress = nullptr;
    std::shared_ptr<const Reach> reach =
        {};  // whose scan it is; `known` must be of the same. None: the daemon's own
};

// Where a source comes from.
struct ManifestUse {
    bool used = false;  // an earlier scan's, from memory or its file; else this source was scanned
    bool kept = false;  // there is one for the next time
    std::string path;   // empty: manifests are kept nowhere
    std::string note;   // why the earlier one was not used, or none kept
};

class FolderSource {
  public:
    // kNotFound: no such folder. kDenied, kIo: it cannot be listed. kDataset: not a folder, no image in it,
    // or under `strict` something in it that cannot be read.
    static Result<FolderSource> scan(const std::string& root, const FolderOptions& options = {});

    [[nodiscard]] std::uint64_t size() const { return manifest_->samples(); }

    // For id < size(); the caller keeps that bound. path() gives root/directory/name, replacing `out`.
    [[nodiscard]] std::int64_t label(std::uint64_t id) const { return manifest_->folder_of(id).label; }
    void path(std::uint64_t id, std::string& out) const;
    void relative_path(std::uint64_t id, std::string& out) const;

    // Class names by label.
    [[nodiscard]] const std::vector<std::string>& classes() const { return classes_; }
    [[nodiscard]] const ScanReport& report() const { return report_; }
    [[nodiscard]] const ManifestUse& manifest_use() const { return use_; }
    [[nodiscard]] const std::shared_ptr<const Manifest>& manifest() const { return manifest_; }

    // FNV-1a, 64 bits, over each class name and a zero byte, then for each sample its path below the root, a
    // zero byte, and its label as 8 little-endian bytes. Equal on every host that has the same names; says
    // nothing about contents.
    [[nodiscard]] std::uint64_t fingerprint() const { return manifest_->header().fingerprint; }

  private:
    FolderSource(std::shared_ptr<const Manifest> manifest, ManifestUse use);
    void append_relative(std::uint64_t id, std::string& out) const;

    std::shared_ptr<const Manifest> manifest_;
    ManifestUse use_;
    std::vector<std::string> classes_;
    ScanReport report_;
};

}  // namespace sl
