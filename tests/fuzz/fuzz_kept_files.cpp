// Fuzzes the other files that a daemon reads: the quarantine, costs, and its configuration; the first byte
// says which. Costs get a right checksum, so that their content is looked at. What is read must survive being
// written again.
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/predict/cost_file.h"
#include "daemon/quarantine/quarantine_lines.h"
#include "tests/fuzz/memory_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace {

void quarantine(std::string_view text) {
    auto content = sl::parse_quarantine(text);
    if (!content.damage.empty()) return;
    for (const auto& [path, entry] : content.entries)
        static_cast<void>(sl::shown(path));
    const std::string written = sl::write_quarantine(content.entries);
    const auto again = sl::parse_quarantine(written);
    if (!again.damage.empty() || !(again.entries == content.entries)) std::abort();
}

// A file that is not behind a link of /proc, as load_costs wants it.
std::string scratch_file() {
    static const std::string path = [] {
        std::string name = "/tmp/sl-fuzz-XXXXXX";
        const int fd = ::mkstemp(name.data());
        if (fd < 0) std::abort();
        ::close(fd);
        return name;
    }();
    static const int removed_at_exit = std::atexit([] { ::unlink(scratch_file().c_str()); });
    if (removed_at_exit != 0) std::abort();
    return path;
}

void costs(std::span<const std::byte> bytes) {
    std::vector<std::byte> file(bytes.begin(), bytes.end());
    if (file.size() < sizeof(sl::CostFileHeader)) return;
    sl::CostFileHeader header;
    std::memcpy(&header, file.data(), sizeof header);
    std::memcpy(header.magic, sl::CostFileHeader::kMagic, sizeof header.magic);
    header.version = sl::CostFileHeader::kVersion;
    header.header_bytes = sizeof header;
    const std::size_t words = (file.size() - sizeof header) / sizeof(sl::SampleHistory::Word);
    header.key = {.dataset = 1, .pipeline = 2, .samples = words};
    file.resize(sizeof header + words * sizeof(sl::SampleHistory::Word));
    std::memcpy(file.data(), &header, sizeof header);
    constexpr std::size_t kChecksumEnd = offsetof(sl::CostFileHeader, checksum) + sizeof header.checksum;
    const std::uint64_t checksum = XXH3_64bits(file.data() + kChecksumEnd, file.size() - kChecksumEnd);
    std::memcpy(file.data() + offsetof(sl::CostFileHeader, checksum), &checksum, sizeof checksum);
    const std::string path = scratch_file();
    sl::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
    if (::write(fd.get(), file.data(), file.size()) != static_cast<ssize_t>(file.size())) std::abort();
    const auto kept = sl::load_costs(path, header.key);
    if (words > 0 && !kept) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const auto rest = std::as_bytes(std::span(data + 1, size - 1));
    if (data[0] % 2 == 0) {
        quarantine({reinterpret_cast<const char*>(rest.data()), rest.size()});
    } else {
        costs(rest);
    }
    return 0;
}
