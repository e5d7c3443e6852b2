// See scan_report.h.
#include "io/scan_report.h"

#include <algorithm>
#include <utility>

namespace sl {

std::string_view to_string(SkipReason reason) {
    constexpr std::array<std::string_view, static_cast<std::size_t>(SkipReason::kCount)> kNames = {
        "hidden", "thumbs", "other", "broken", "denied", "failed", "special", "outside_class", "repeated"};
    auto index = static_cast<std::size_t>(reason);
    return index < kNames.size() ? kNames[index] : "unknown";
}

void ScanReport::add(SkipReason reason, std::string path) {
    Skipped& entry = skipped[static_cast<std::size_t>(reason)];
    ++entry.count;
    if (entry.examples.size() < kMostExamples) entry.examples.push_back(std::move(path));
}

std::string ScanReport::summary() const {
    constexpr std::size_t kShown = 3;
    std::string text = std::to_string(directories) + (directories == 1 ? " directory" : " directories");
    const char* before = "; left out: ";
    for (std::size_t i = 0; i < skipped.size(); ++i) {
        const Skipped& entry = skipped[i];
        if (entry.count == 0) continue;
        text += before + std::to_string(entry.count) + " " + std::string(to_string(SkipReason(i))) + " (";
        for (std::size_t n = 0; n < std::min(entry.examples.size(), kShown); ++n) {
            text.append(n == 0 ? "" : ", ").append(entry.examples[n]);
        }
        text += entry.count > kShown ? ", ...)" : ")";
        before = ", ";
    }
    return text;
}

}  // namespace sl
