// The result of a folder's scan as one piece of read-only memory: the same bytes as in its file.
//
// Made by folder_source: built from a fresh scan, or read from a file (manifest_file.h); constant afterwards
// and safe to read from any thread. A file is copied into sealed memory, then checked, then believed: a file
// that is damaged, cut or written over later can neither crash the daemon nor change what it has checked.
// kDataset from read(): these bytes are no manifest of this folder, with the reason; then the folder is
// scanned.
//
// Memory: 8 bytes a sample, its name and a zero byte; 24 bytes and the path for each directory with samples;
// 48 bytes and the path for each witness.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/folder_scan.h"
#include "shm/error.h"
#include "shm/segment.h"

namespace sl {

// The file's layout, in the byte order of the host, each part beginning where the one before ends:
//   ManifestHeader, ManifestFolder[folders], u64 name[samples], u64 class name[classes], Witness[witnesses],
//   ManifestExample[examples], text[text_bytes]
// Names and paths are offsets into the text, whose every piece ends with a zero byte and whose first piece is
// the root's path. Another layout, or other rules of what is a sample, is another version.
struct ManifestHeader {
    static constexpr char kMagic[8] = {'S', 'L', 'M', 'A', 'N', 'I', 'F', '\n'};
    static constexpr std::uint32_t kVersion = 1;

    char magic[8];
    std::uint32_t version;
    std::uint32_t header_bytes;
    std::uint64_t checksum;  // XXH3, 64 bits, of every byte after this field
    std::uint64_t bytes;     // of the whole
    std::uint64_t fingerprint;
    std::uint64_t folders;
    std::uint64_t samples;
    std::uint64_t classes;
    std::uint64_t witnesses;
    std::uint64_t examples;
    std::uint64_t text_bytes;
    std::uint64_t directories;  // entered by the scan
    std::uint64_t skipped[static_cast<std::size_t>(SkipReason::kCount)];
};

// A directory with samples: those from `first` to the next folder's first.
struct ManifestFolder {
    std::uint64_t path;  // below the root
    std::uint64_t first;
    std::int64_t label;
};

struct ManifestExample {
    std::uint64_t reason;  // SkipReason
    std::uint64_t path;
};

class Manifest {
  public:
    struct Parts {
        const std::string& root;  // without a slash at its end, unless it is "/"
        const FolderScan& scan;   // its directories in the samples' order, and only those with samples
        const std::vector<std::int64_t>& labels;  // of those directories
        const std::vector<std::string>& classes;  // by label
    };
    static Result<Manifest> build(const Parts& parts);

    // From `bytes` bytes of an open file.
    static Result<Manifest> read(int fd, std::uint64_t bytes, const std::string& root);

    [[nodiscard]] const ManifestHeader& header() const;
    [[nodiscard]] std::span<const std::byte> bytes() const { return memory_.bytes(); }
    [[nodiscard]] std::span<const ManifestFolder> folders() const { return folders_; }
    [[nodiscard]] std::span<const Witness> witnesses() const { return witnesses_; }
    [[nodiscard]] std::span<const std::uint64_t> class_names() const { return classes_; }
    [[nodiscard]] const char* text(std::uint64_t offset) const { return text_ + offset; }
    [[nodiscard]] std::uint64_t samples() const { return names_.size(); }

    // For id < samples(); the caller keeps that bound.
    [[nodiscard]] const char* name(std::uint64_t id) const { return text_ + names_[id]; }
    [[nodiscard]] const ManifestFolder& folder_of(std::uint64_t id) const;

    [[nodiscard]] ScanReport report() const;

  private:
    Manifest() = default;
    // Where the parts lie, by the header's numbers, which must fit memory_.
    void find_parts();
    [[nodiscard]] std::string_view what_is_wrong(const std::string& root) const;
    [[nodiscard]] bool offsets_are_good() const;

    Mapping memory_;
    std::span<const ManifestFolder> folders_;
    std::span<const std::uint64_t> names_;  // by sample id
    std::span<const std::uint64_t> classes_;
    std::span<const Witness> witnesses_;
    std::span<const ManifestExample> examples_;
    const char* text_ = nullptr;

    friend class ManifestBuilder;
};

// The size that a header's numbers make; 0 if they are no sizes.
std::uint64_t manifest_bytes(const ManifestHeader& header);
std::uint64_t manifest_checksum(std::span<const std::byte> bytes);

}  // namespace sl
