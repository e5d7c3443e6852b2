// See manifest.h: reading and checking. How one is made is in manifest_build.cpp.
#include "io/manifest.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sl {

namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;
constexpr std::size_t kChecksumEnd = offsetof(ManifestHeader, checksum) + sizeof(ManifestHeader::checksum);

// 0, or an errno; EIO if the file ends early.
int read_whole(int fd, std::span<std::byte> target) {
    std::size_t done = 0;
    while (done < target.size()) {
        ssize_t got = ::pread(fd, target.data() + done, target.size() - done, static_cast<off_t>(done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return got == 0 ? EIO : errno;
        done += static_cast<std::size_t>(got);
    }
    return 0;
}

}  // namespace

std::uint64_t manifest_bytes(const ManifestHeader& header) {
    struct {
        std::uint64_t count;
        std::uint64_t size;
    } const parts[] = {{header.folders, sizeof(ManifestFolder)},   {header.samples, sizeof(std::uint64_t)},
                       {header.classes, sizeof(std::uint64_t)},    {header.witnesses, sizeof(Witness)},
                       {header.examples, sizeof(ManifestExample)}, {header.text_bytes, 1}};
    std::uint64_t bytes = sizeof(ManifestHeader);
    for (const auto& part : parts) {
        if (part.count > kMostBytes / part.size) return 0;
        bytes += part.count * part.size;
    }
    return bytes;
}

std::uint64_t manifest_checksum(std::span<const std::byte> bytes) {
    auto covered = bytes.subspan(kChecksumEnd);
    return XXH3_64bits(covered.data(), covered.size());
}

Result<Manifest> Manifest::read(int fd, std::uint64_t bytes, const std::string& root) {
    if (bytes < sizeof(ManifestHeader) || bytes > kMostBytes) {
        return fail(Status::kDataset, "it has no manifest's size");
    }
    auto segment = Segment::create("speedyloader-manifest", bytes);
    if (!segment) return std::unexpected(std::move(segment).error());
    if (int error = read_whole(fd, segment->bytes().first(bytes))) {
        return std::unexpected(os_error(Status::kDataset, "it cannot be read", error));
    }
    if (auto sealed = segment->seal_against_writers(); !sealed) return std::unexpected(sealed.error());
    auto memory = Mapping::map(segment->writable_fd(), bytes, Access::kReadOnly);
    if (!memory) return std::unexpected(std::move(memory).error());
    Manifest made;
    made.memory_ = std::move(*memory);
    auto wrong = made.what_is_wrong(root);
    if (!wrong.empty()) return fail(Status::kDataset, std::string(wrong));
    made.find_parts();
    if (!made.offsets_are_good()) return fail(Status::kDataset, "it points outside itself");
    if (root != made.text(0)) return fail(Status::kDataset, "it is another folder's");
    return made;
}

const ManifestHeader& Manifest::header() const {
    return *reinterpret_cast<const ManifestHeader*>(memory_.data());
}

std::string_view Manifest::what_is_wrong(const std::string& root) const {
    const ManifestHeader& head = header();
    if (std::memcmp(head.magic, ManifestHeader::kMagic, sizeof head.magic) != 0) return "it is no manifest";
    if (head.version != ManifestHeader::kVersion || head.header_bytes != sizeof(ManifestHeader)) {
        return "it is of another version";
    }
    if (head.bytes != memory_.size() || manifest_bytes(head) != memory_.size()) return "its size is wrong";
    if (head.checksum != manifest_checksum(memory_.bytes())) return "its checksum is wrong";
    if (head.samples == 0 || head.folders == 0 || head.text_bytes <= root.size())
        return "it holds no samples";
    return {};
}

void Manifest::find_parts() {
    const ManifestHeader& head = header();
    const std::byte* place = memory_.data() + sizeof(ManifestHeader);
    auto take = [&place]<class T>(std::span<const T>& part, std::uint64_t count) {
        part = {reinterpret_cast<const T*>(place), count};
        place += count * sizeof(T);
    };
    take(folders_, head.folders);
    take(names_, head.samples);
    take(classes_, head.classes);
    take(witnesses_, head.witnesses);
    take(examples_, head.examples);
    text_ = reinterpret_cast<const char*>(place);
}

// The checksum says that nothing was changed by accident; this, that even a clever one cannot lead outside.
bool Manifest::offsets_are_good() const {
    const std::uint64_t end = header().text_bytes;
    auto inside = [end](std::uint64_t offset) { return offset < end; };
    if (text_[end - 1] != '\0') return false;
    std::uint64_t least = 0;
    for (const auto& folder : folders_) {
        const bool in_order = &folder == folders_.data() ? folder.first == 0 : folder.first > least;
        if (!in_order || folder.first >= samples() || !inside(folder.path)) return false;
        if (folder.label < 0 || static_cast<std::uint64_t>(folder.label) >= classes_.size()) return false;
        least = folder.first;
    }
    return std::ranges::all_of(names_, inside) && std::ranges::all_of(classes_, inside) &&
           std::ranges::all_of(
               witnesses_,
               [&](const auto& witness) { return inside(witness.path) && witness.kind < Witness::kKinds; }) &&
           std::ranges::all_of(examples_, [&](const auto& example) {
               return inside(example.path) && example.reason < std::size(header().skipped);
           });
}

const ManifestFolder& Manifest::folder_of(std::uint64_t id) const {
    auto after = std::ranges::upper_bound(folders_, id, {}, &ManifestFolder::first);
    return *std::prev(after);
}

ScanReport Manifest::report() const {
    ScanReport report;
    report.directories = header().directories;
    for (const auto& example : examples_) {
        report.skipped[example.reason].examples.emplace_back(text(example.path));
    }
    for (std::size_t i = 0; i < report.skipped.size(); ++i)
        report.skipped[i].count = header().skipped[i];
    return report;
}

}  // namespace sl
