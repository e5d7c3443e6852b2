// Making a manifest from a fresh scan; see manifest.h.
#include <algorithm>
#include <cstring>
#include <string_view>

#include "io/manifest.h"

namespace sl {

namespace {

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

// Two walks over the same scan: measure() counts, fill() writes.
class ManifestBuilder {
  public:
    explicit ManifestBuilder(const Manifest::Parts& parts) : parts_(parts) {}
    Result<Manifest> build();

  private:
    void measure();
    void fill();
    void fill_samples(ManifestFolder* folder, std::uint64_t* name);
    std::uint64_t put(std::string_view text);
    [[nodiscard]] std::uint64_t fingerprint() const;

    const Manifest::Parts& parts_;
    ManifestHeader head_{};
    std::byte* memory_ = nullptr;
    char* text_ = nullptr;
    std::uint64_t used_ = 0;  // of the text
};

Result<Manifest> ManifestBuilder::build() {
    measure();
    auto segment = Segment::create("speedyloader-manifest", head_.bytes);
    if (!segment) return std::unexpected(std::move(segment).error());
    memory_ = segment->data();
    fill();
    if (auto sealed = segment->seal_against_writers(); !sealed) return std::unexpected(sealed.error());
    auto memory = Mapping::map(segment->writable_fd(), head_.bytes, Access::kReadOnly);
    if (!memory) return std::unexpected(std::move(memory).error());
    Manifest made;
    made.memory_ = std::move(*memory);
    made.find_parts();
    return made;
}

void ManifestBuilder::measure() {
    const FolderScan& scan = parts_.scan;
    std::memcpy(head_.magic, ManifestHeader::kMagic, sizeof head_.magic);
    head_.version = ManifestHeader::kVersion;
    head_.header_bytes = sizeof head_;
    head_.folders = scan.directories.size();
    head_.classes = parts_.classes.size();
    head_.witnesses = scan.witnesses.size();
    head_.directories = scan.report.directories;
    head_.text_bytes = parts_.root.size() + 1 + scan.witness_paths.size();
    for (const auto& directory : scan.directories) {
        head_.samples += directory.count;
        head_.text_bytes += directory.path.size() + 1;
        for (std::uint64_t i = 0; i < directory.count; ++i) {
            head_.text_bytes += std::strlen(scan.names.c_str() + scan.name_offsets[directory.first + i]) + 1;
        }
    }
    for (const auto& name : parts_.classes)
        head_.text_bytes += name.size() + 1;
    for (std::size_t i = 0; i < scan.report.skipped.size(); ++i) {
        const auto& skipped = scan.report.skipped[i];
        head_.skipped[i] = skipped.count;
        head_.examples += skipped.examples.size();
        for (const auto& example : skipped.examples)
            head_.text_bytes += example.size() + 1;
    }
    head_.bytes = manifest_bytes(head_);
}

// `text` without its zero byte; an embedded one cannot be, these are file names.
std::uint64_t ManifestBuilder::put(std::string_view text) {
    const std::uint64_t at = used_;
    std::memcpy(text_ + at, text.data(), text.size());
    used_ += text.size() + 1;  // the memory is new, so the zero byte is there
    return at;
}

void ManifestBuilder::fill() {
    const FolderScan& scan = parts_.scan;
    auto* folder = reinterpret_cast<ManifestFolder*>(memory_ + sizeof head_);
    auto* name = reinterpret_cast<std::uint64_t*>(folder + head_.folders);
    auto* class_name = name + head_.samples;
    auto* witness = reinterpret_cast<Witness*>(class_name + head_.classes);
    auto* example = reinterpret_cast<ManifestExample*>(witness + head_.witnesses);
    text_ = reinterpret_cast<char*>(example + head_.examples);
    put(parts_.root);
    for (const auto& text : parts_.classes)
        *class_name++ = put(text);
    const std::uint64_t paths = used_;
    std::memcpy(text_ + paths, scan.witness_paths.data(), scan.witness_paths.size());
    used_ += scan.witness_paths.size();
    for (Witness each : scan.witnesses) {
        each.path += paths;
        *witness++ = each;
    }
    for (std::size_t i = 0; i < scan.report.skipped.size(); ++i) {
        for (const auto& text : scan.report.skipped[i].examples)
            *example++ = {i, put(text)};
    }
    fill_samples(folder, name);
    head_.fingerprint = fingerprint();
    std::memcpy(memory_, &head_, sizeof head_);
    head_.checksum = manifest_checksum({memory_, head_.bytes});
    std::memcpy(memory_, &head_, sizeof head_);
}

void ManifestBuilder::fill_samples(ManifestFolder* folder, std::uint64_t* name) {
    std::uint64_t first = 0;
    for (std::size_t i = 0; i < parts_.scan.directories.size(); ++i) {
        const auto& directory = parts_.scan.directories[i];
        *folder++ = {put(directory.path), first, parts_.labels[i]};
        first += directory.count;
        for (std::uint64_t n = 0; n < directory.count; ++n) {
            *name++ = put(parts_.scan.names.c_str() + parts_.scan.name_offsets[directory.first + n]);
        }
    }
}

std::uint64_t ManifestBuilder::fingerprint() const {
    Fnv1a hash;
    for (const auto& name : parts_.classes) {
        hash.add(name);
        hash.add_byte(0);
    }
    for (std::size_t i = 0; i < parts_.scan.directories.size(); ++i) {
        const auto& directory = parts_.scan.directories[i];
        const std::string prefix = directory.path.empty() ? "" : directory.path + "/";
        for (std::uint64_t n = 0; n < directory.count; ++n) {
            hash.add(prefix);
            hash.add(parts_.scan.names.c_str() + parts_.scan.name_offsets[directory.first + n]);
            hash.add_byte(0);
            hash.add_number(static_cast<std::uint64_t>(parts_.labels[i]));
        }
    }
    return hash.value();
}

Result<Manifest> Manifest::build(const Parts& parts) {
    return ManifestBuilder(parts).build();
}

}  // namespace sl
