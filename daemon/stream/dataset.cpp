#include "daemon/stream/dataset.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace sl {

Result<std::shared_ptr<const Dataset>> Dataset::scan(const Spec& spec) {
    auto folder = FolderSource::scan(spec.path);
    if (!folder) return std::unexpected(std::move(folder).error());
    return std::shared_ptr<const Dataset>(new Dataset(std::move(*folder)));
}

std::uint32_t format_hint(std::string_view path) {
    auto dot = path.rfind('.');
    if (dot == std::string_view::npos) return 0;
    std::string extension(path.substr(dot + 1));
    std::ranges::transform(extension, extension.begin(), [](unsigned char c) { return std::tolower(c); });
    constexpr std::array<std::string_view, 4> kJpeg = {"jpg", "jpeg", "jpe", "jfif"};
    if (std::ranges::find(kJpeg, extension) != kJpeg.end()) return 1;
    return extension == "png" ? 2 : 0;
}

}  // namespace sl
