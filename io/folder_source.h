// The dataset kind `image_folder`: class sub-folders of image files, each sample a path and a label.
//
// Classes are the sub-folders of the root, numbered by name; samples are ordered by (class, directory, name),
// all bytewise: the order of torchvision's ImageFolder, and the same on every host. A root without class
// folders that holds images itself (a flat folder) has one class, named "", with label 0. When there are
// class folders, images beside them belong to no class and are left out. Zero-byte files are samples: ids
// must not move, and reading one is an error of that sample. Which names are images, and what else is left
// out, is in folder_scan.h and in report().
//
// Made once, before a stream starts, by a blocking walk; constant afterwards and safe to read from any
// thread. Memory: 12 bytes a sample, its name and a zero byte, and each directory's path once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/folder_scan.h"
#include "shm/error.h"

namespace sl {

struct FolderOptions {
    bool strict = false;  // broken links, denied and failed entries are an error, not a line of the report
};

class FolderSource {
  public:
    // kNotFound: no such folder. kDenied, kIo: it cannot be listed. kDataset: not a folder, no image in it,
    // or under `strict` something in it that cannot be read.
    static Result<FolderSource> scan(const std::string& root, const FolderOptions& options = {});

    [[nodiscard]] std::uint64_t size() const { return name_offsets_.size(); }

    // For id < size(); the caller keeps that bound. path() gives root/directory/name, replacing `out`.
    [[nodiscard]] std::int64_t label(std::uint64_t id) const;
    void path(std::uint64_t id, std::string& out) const;
    void relative_path(std::uint64_t id, std::string& out) const;

    // Class names by label.
    [[nodiscard]] const std::vector<std::string>& classes() const { return classes_; }
    [[nodiscard]] const ScanReport& report() const { return report_; }

    // FNV-1a, 64 bits, over each class name and a zero byte, then for each sample its path below the root, a
    // zero byte, and its label as 8 little-endian bytes. Equal on every host that has the same names; says
    // nothing about contents.
    [[nodiscard]] std::uint64_t fingerprint() const { return fingerprint_; }

  private:
    struct Directory {
        std::string path;  // below the root
        std::int64_t label;
    };

    FolderSource(std::string root, FolderScan scan, bool flat);
    void index(const FolderScan& scan, const std::vector<std::int64_t>& labels);
    void append_relative(std::uint64_t id, std::string& out) const;
    [[nodiscard]] std::uint64_t compute_fingerprint() const;

    std::string root_;
    std::string names_;
    std::vector<Directory> directories_;
    std::vector<std::uint64_t> name_offsets_;  // by sample id
    std::vector<std::uint32_t> directory_of_;  // by sample id
    std::vector<std::string> classes_;
    ScanReport report_;
    std::uint64_t fingerprint_ = 0;
};

}  // namespace sl
