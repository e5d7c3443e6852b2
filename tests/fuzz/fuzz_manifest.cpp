// Fuzzes manifest files, with the checksum made right, so that what a clever file says is looked at and not
// only refused: a manifest that is believed must be usable to its last sample.
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "io/manifest.h"
#include "tests/fuzz/memory_file.h"

namespace {

const std::string kRoot = "/data";

void use_all_of(const sl::Manifest& manifest) {
    std::size_t letters = 0;
    for (std::uint64_t id = 0; id < manifest.samples(); ++id) {
        const sl::ManifestFolder& folder = manifest.folder_of(id);
        letters += std::strlen(manifest.name(id)) + std::strlen(manifest.text(folder.path));
        if (folder.first > id) std::abort();
        letters += std::strlen(manifest.text(manifest.class_names()[static_cast<std::size_t>(folder.label)]));
    }
    for (const auto& witness : manifest.witnesses())
        letters += std::strlen(manifest.text(witness.path));
    if (letters == SIZE_MAX || manifest.report().skipped.empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::vector<std::uint8_t> bytes(data, data + size);
    if (size >= sizeof(sl::ManifestHeader)) {
        const auto checksum = sl::manifest_checksum(std::as_bytes(std::span(bytes)));
        std::memcpy(bytes.data() + offsetof(sl::ManifestHeader, checksum), &checksum, sizeof checksum);
    }
    const sl::MemoryFile file(std::as_bytes(std::span(bytes)));
    const auto manifest = sl::Manifest::read(file.fd(), size, kRoot);
    if (manifest) use_all_of(*manifest);
    return 0;
}
