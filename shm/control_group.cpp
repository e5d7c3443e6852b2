// See control_group.h.
#include "shm/control_group.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string_view>
#include <vector>

namespace sl {

namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

std::uint64_t read_number(const std::string& path) {
    std::ifstream file(path);
    std::uint64_t value = 0;
    return file >> value ? value : kNoLimit;  // "max" is no number: no limit
}

// File pages count as used but are given up when somebody needs the memory.
std::uint64_t file_pages(const std::string& path) {
    std::ifstream file(path);
    std::string name;
    std::uint64_t value = 0;
    std::uint64_t sum = 0;
    while (file >> name >> value) {
        if (name == "inactive_file" || name == "active_file") sum += value;
    }
    return sum;
}

// The folders of the group and of all above it, the root last. In a name space of its own the group is "/".
std::vector<std::string> folders(const ControlGroups& groups) {
    std::vector<std::string> found;
    std::ifstream file(groups.of_self);
    constexpr std::string_view kSecondVersion = "0::/";
    for (std::string line; std::getline(file, line);) {
        if (!line.starts_with(kSecondVersion)) continue;
        std::string path = line.substr(kSecondVersion.size() - 1);
        for (; path.size() > 1; path.resize(path.rfind('/')))
            found.push_back(groups.root + path);
    }
    found.push_back(groups.root);
    return found;
}

}  // namespace

std::uint64_t ControlGroups::memory_left() const {
    std::uint64_t left = kNoLimit;
    for (const std::string& folder : folders(*this)) {
        const std::uint64_t limit = read_number(folder + "/memory.max");
        std::uint64_t used = read_number(folder + "/memory.current");
        if (limit == kNoLimit || used == kNoLimit) continue;
        used -= std::min(used, file_pages(folder + "/memory.stat"));
        left = std::min(left, limit - std::min(limit, used));
    }
    return left;
}

double ControlGroups::cores() const {
    double least = std::numeric_limits<double>::infinity();
    for (const std::string& folder : folders(*this)) {
        std::ifstream file(folder + "/cpu.max");  // "max 100000" or "150000 100000"
        double quota = 0;
        double period = 0;
        if (file >> quota >> period && period > 0) least = std::min(least, quota / period);
    }
    return least;
}

}  // namespace sl
