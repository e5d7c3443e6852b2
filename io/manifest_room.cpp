// See manifest_room.h.
#include "io/manifest_room.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "shm/fd.h"

namespace sl {

namespace {

constexpr std::string_view kUnfinished = ".new";

struct File {
    std::string name;
    std::uint64_t bytes = 0;
    std::int64_t used_s = 0;
    std::int64_t used_ns = 0;
};

bool is_unfinished(std::string_view name) {
    return name.ends_with(kUnfinished);
}

// 16 hexadecimal digits, as manifest_path makes them, and the same with what save_manifest adds.
bool is_ours(std::string_view name) {
    if (is_unfinished(name)) name.remove_suffix(kUnfinished.size());
    return name.size() == 16 && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::vector<File> files_of(DIR* folder) {
    std::vector<File> found;
    const int fd = ::dirfd(folder);
    for (std::size_t seen = 0; seen < kMostManifestEntries; ++seen) {
        const dirent* entry = ::readdir(folder);
        if (entry == nullptr) break;
        struct stat status = {};
        if (!is_ours(entry->d_name)) continue;
        if (::fstatat(fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode))
            continue;
        found.push_back({entry->d_name, static_cast<std::uint64_t>(status.st_size), status.st_mtim.tv_sec,
                         status.st_mtim.tv_nsec});
    }
    return found;
}

void remove(int folder, const std::string& name) {
    if (is_unfinished(name)) {
        UniqueFd file(::openat(folder, name.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
        if (!file || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return;  // somebody is writing it
        ::unlinkat(folder, name.c_str(), 0);
        return;
    }
    ::unlinkat(folder, name.c_str(), 0);
}

}  // namespace

void make_manifest_room(const std::string& cache_folder, const std::string& newest) {
    std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(cache_folder.c_str()), &::closedir);
    if (!folder) return;
    std::vector<File> files = files_of(folder.get());
    auto is_newest = [&](const File& file) { return newest == cache_folder + "/" + file.name; };
    std::ranges::sort(files, [&](const File& a, const File& b) {
        return std::tuple(is_newest(a), a.used_s, a.used_ns) > std::tuple(is_newest(b), b.used_s, b.used_ns);
    });
    std::size_t kept = 0;
    std::uint64_t bytes = 0;
    for (const File& file : files) {
        const bool fits = kept < kMostManifests && file.bytes <= kMostManifestBytes - bytes;
        if (fits || is_newest(file)) {
            ++kept;
            bytes = std::min(bytes + file.bytes, kMostManifestBytes);
        } else {
            remove(::dirfd(folder.get()), file.name);
        }
    }
}

}  // namespace sl
