// See witness.h.
#include "io/witness.h"

#include <fcntl.h>
#include <time.h>

#include <algorithm>
#include <cerrno>

#include "shm/fd.h"

namespace sl {

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

std::int64_t in_ns(const timespec& time) {
    return static_cast<std::int64_t>(time.tv_sec) * kSecond + time.tv_nsec;
}

bool same(const Witness& then, const Witness& now) {
    return then.device == now.device && then.inode == now.inode && then.mtime_ns == now.mtime_ns &&
           then.ctime_ns == now.ctime_ns && then.type == now.type && then.error == now.error;
}

// A folder, and how what is below it is looked at; errors are errno values.
class Looker {
  public:
    Looker(const std::string& root, const Reach* reach) : root_(root), reach_(reach) {
        if (reach == nullptr) folder_.reset(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    }
    [[nodiscard]] bool is_there() const { return reach_ != nullptr || folder_; }
    int status(const char* path, struct stat& status) const {
        if (reach_ != nullptr) return reach_->status(full(path).c_str(), status);
        const int flags = *path == '\0' ? AT_EMPTY_PATH : 0;
        return ::fstatat(folder_.get(), path, &status, flags) < 0 ? errno : 0;
    }
    int open_error(const char* path) const {
        constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
        const int fd = reach_ != nullptr ? reach_->open(full(path).c_str(), kFlags)
                                         : ::openat(folder_.get(), path, kFlags);
        const int error = fd >= 0 ? 0 : reach_ != nullptr ? -fd : errno;
        UniqueFd closes(fd);
        return error;
    }

  private:
    [[nodiscard]] std::string full(const char* path) const { return root_ + "/" + path; }

    const std::string& root_;
    const Reach* reach_;
    UniqueFd folder_;
};

bool looks_the_same(const Looker& looker, const Witness& witness, const char* path) {
    if (witness.kind == Witness::kUnreadable) return looker.open_error(path) == witness.error;
    struct stat status = {};
    const int error = looker.status(path, status);
    if (witness.kind == Witness::kLink) return same(witness, link_witness(status, error));
    if (error != 0 || witness.mtime_ns == kNotTrusted) return false;
    // Whether the times could be trusted was decided when they were taken.
    return same(witness, directory_witness(status, INT64_MAX));
}

}  // namespace

bool may_change_unseen(std::int64_t mtime_ns, std::int64_t ctime_ns, std::int64_t now_ns) {
    if (mtime_ns <= 0 || ctime_ns <= 0) return true;
    // mtime can be set to a whole second, ctime is one by chance once in a thousand million times.
    const std::int64_t tick = ctime_ns % kSecond == 0 ? kCoarseClockTick : kClockTick;
    return std::max(mtime_ns, ctime_ns) > now_ns - tick;
}

std::int64_t file_clock_ns() {
    timespec time{};
    ::clock_gettime(CLOCK_REALTIME, &time);
    return in_ns(time);
}

Witness directory_witness(const struct stat& status, std::int64_t now_ns) {
    Witness witness;
    witness.device = status.st_dev;
    witness.inode = status.st_ino;
    witness.mtime_ns = in_ns(status.st_mtim);
    witness.ctime_ns = in_ns(status.st_ctim);
    witness.type = status.st_mode & S_IFMT;
    if (may_change_unseen(witness.mtime_ns, witness.ctime_ns, now_ns)) witness.mtime_ns = kNotTrusted;
    return witness;
}

Witness link_witness(const struct stat& status, int error) {
    Witness witness;
    witness.kind = Witness::kLink;
    witness.error = static_cast<std::uint16_t>(error);
    if (error != 0) return witness;
    witness.type = status.st_mode & S_IFMT;
    if (!S_ISDIR(status.st_mode)) return witness;
    witness.device = status.st_dev;
    witness.inode = status.st_ino;
    return witness;
}

std::optional<std::string> first_change(const std::string& root, std::span<const Witness> witnesses,
                                        const char* text, const Reach* reach) {
    const Looker looker(root, reach);
    for (const Witness& witness : witnesses) {
        const char* path = text + witness.path;
        if (!looker.is_there() || !looks_the_same(looker, witness, path)) return *path == '\0' ? "." : path;
    }
    return std::nullopt;
}

}  // namespace sl
