// See reach.h.
#include "io/reach.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

namespace sl {

namespace {

constexpr int kMostLinks = 40;         // the kernel's own limit
constexpr std::size_t kDeepest = 256;  // folders below the root

// One name in a folder. The kernel too is told to stay beneath it.
int open_in(int folder, const char* name, int flags, std::uint64_t resolve) {
    open_how how{};
    how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
    how.resolve = resolve | RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
    const long result = ::syscall(SYS_openat2, folder, name, &how, sizeof how);
    return result < 0 ? -errno : static_cast<int>(result);
}

// The path's names, last first; "." and empty ones are none.
std::vector<std::string> names_of(std::string_view path) {
    std::vector<std::string> names;
    while (!path.empty()) {
        const std::size_t end = std::min(path.find('/'), path.size());
        const std::string_view name = path.substr(0, end);
        if (!name.empty() && name != ".") names.emplace_back(name);
        path.remove_prefix(std::min(end + 1, path.size()));
    }
    std::ranges::reverse(names);
    return names;
}

// How far into `path` the names of `root` go; npos if they are not its first ones.
std::size_t end_of(const std::vector<std::string>& root, std::string_view path) {
    std::size_t at = 0;
    for (auto name = root.rbegin(); name != root.rend(); ++name) {
        std::string_view found;
        while (found.empty() || found == ".") {
            at = path.find_first_not_of('/', at);
            if (at == std::string_view::npos) return at;
            const std::size_t end = std::min(path.find('/', at), path.size());
            found = path.substr(at, end - at);
            at = end;
        }
        if (found != *name) return std::string_view::npos;
    }
    return at;
}

class Walk {
  public:
    Walk(int root, const User& user) : root_(root), user_(user) {}

    // To the end of `path`, below the root; 0 or an errno.
    int go(std::string_view path);
    int open_end(int flags) const;
    [[nodiscard]] const struct stat& status() const { return status_; }

  private:
    [[nodiscard]] int folder() const { return entered_.empty() ? root_ : entered_.back().get(); }
    int look_here() { return ::fstat(folder(), &status_) < 0 ? errno : 0; }
    int step(std::string name);
    int follow(int link);

    const int root_;
    const User& user_;
    std::vector<UniqueFd> entered_;   // the folders below the root, each in the one before
    std::vector<std::string> ahead_;  // names still to go, the next one last
    std::string file_;                // the end, if it is no folder: its name in the last of them
    struct stat status_ = {};         // of the place that was reached
    int links_ = 0;
};

int Walk::go(std::string_view path) {
    if (path.size() >= PATH_MAX) return ENAMETOOLONG;
    if (int error = look_here()) return error;
    ahead_ = names_of(path);
    while (!ahead_.empty()) {
        std::string name = std::move(ahead_.back());
        ahead_.pop_back();
        if (int error = step(std::move(name))) return error;
    }
    return 0;
}

int Walk::step(std::string name) {
    if (!file_.empty()) return ENOTDIR;
    if (!may(user_, Permission::kSearch, status_)) return EPERM;
    if (name == "..") {
        if (entered_.empty()) return EXDEV;
        entered_.pop_back();
        return look_here();
    }
    const int got = open_in(folder(), name.c_str(), O_PATH | O_NOFOLLOW, 0);
    if (got < 0) return -got;
    UniqueFd found(got);
    struct stat status = {};
    if (::fstat(found.get(), &status) < 0) return errno;
    if (S_ISLNK(status.st_mode)) return follow(found.get());
    status_ = status;
    if (S_ISDIR(status.st_mode)) {
        if (entered_.size() >= kDeepest)
            return ELOOP;  // each is a descriptor; links may make a path longer than its text
        entered_.push_back(std::move(found));
    } else {
        file_ = std::move(name);
    }
    return 0;
}

int Walk::follow(int link) {
    if (++links_ > kMostLinks) return ELOOP;
    char text[PATH_MAX];
    const ssize_t length = ::readlinkat(link, "", text, sizeof text);
    if (length < 0) return errno;
    if (length == 0) return ENOENT;
    if (length == sizeof text) return ENAMETOOLONG;
    if (text[0] == '/') return EXDEV;
    for (std::string& name : names_of({text, static_cast<std::size_t>(length)}))
        ahead_.push_back(std::move(name));
    return 0;
}

// What has this name now must still be what the user may read: it is asked of what was opened.
int Walk::open_end(int flags) const {
    if (!may(user_, Permission::kRead, status_)) return -EPERM;
    const char* name = file_.empty() ? "." : file_.c_str();
    const int got = open_in(folder(), name, flags | O_NOFOLLOW, RESOLVE_NO_SYMLINKS);
    if (got == -ELOOP) return -EXDEV;  // replaced by a link since
    if (got < 0) return got;
    UniqueFd opened(got);
    struct stat status = {};
    if (::fstat(opened.get(), &status) < 0) return -errno;
    return may(user_, Permission::kRead, status) ? opened.release() : -EPERM;
}

std::string identity_of(const Root& root, const User& user) {
    struct stat status = {};
    std::string text = root.path;
    // Piece by piece: at -O3 GCC 12 warns of what it makes of "a" + std::to_string(b).
    const auto add = [&text](char before, std::uint64_t number) {
        text.push_back(before);
        text.append(std::to_string(number));
    };
    if (::fstat(root.folder.get(), &status) == 0) {
        add('\0', status.st_dev);
        add(':', status.st_ino);
    }
    add('\0', user.uid);
    for (const gid_t group : user.groups)
        add(',', group);
    return text;
}

}  // namespace

bool User::is_in(gid_t group) const {
    return std::ranges::find(groups, group) != groups.end();
}

bool may(const User& user, Permission wanted, const struct stat& status) {
    const auto bit = static_cast<mode_t>(wanted);
    if (user.uid == status.st_uid) return (status.st_mode & (bit << 6)) != 0;
    if (user.is_in(status.st_gid)) return (status.st_mode & (bit << 3)) != 0;
    return (status.st_mode & bit) != 0;
}

Result<std::shared_ptr<const Root>> Root::open(const std::string& path) {
    if (!path.starts_with('/')) return fail(Status::kInvalidArgument, "\"" + path + "\" is no absolute path");
    UniqueFd folder(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!folder)
        return std::unexpected(os_error(Status::kInvalidArgument, "\"" + path + "\" is no folder", errno));
    const UniqueFd probe(open_in(folder.get(), ".", O_PATH, 0));
    if (!probe)
        return fail(Status::kUnsupported, "openat2 cannot be had here: roots need Linux 5.6 or newer");
    return std::make_shared<const Root>(Root{path, std::move(folder)});
}

bool Root::holds(const std::string& other) const {
    return other.starts_with('/') && end_of(names_of(path), other) != std::string::npos;
}

Reach::Reach(std::shared_ptr<const Root> root, User user) : root_(std::move(root)), user_(std::move(user)) {
    std::ranges::sort(user_.groups);
    const auto repeated = std::ranges::unique(user_.groups);
    user_.groups.erase(repeated.begin(), repeated.end());
    identity_ = identity_of(*root_, user_);
}

int Reach::open(const char* path, int flags) const {
    const std::size_t begin = end_of(names_of(root_->path), path);
    if (begin == std::string_view::npos) return -EXDEV;
    Walk walk(root_->folder.get(), user_);
    if (int error = walk.go(std::string_view(path).substr(begin))) return -error;
    return walk.open_end(flags);
}

int Reach::status(const char* path, struct stat& status) const {
    const std::size_t begin = end_of(names_of(root_->path), path);
    if (begin == std::string_view::npos) return EXDEV;
    Walk walk(root_->folder.get(), user_);
    if (int error = walk.go(std::string_view(path).substr(begin))) return error;
    status = walk.status();
    return 0;
}

std::string Reach::explain(const std::string& path, int error) const {
    const std::string who = "user " + std::to_string(user_.uid) + " may not read \"" + path + "\": ";
    if (error == EXDEV)
        return who + "it leads out of the root \"" + root_->path + "\"; put the files beneath it";
    if (error == EACCES)
        return who + "the daemon, user " + std::to_string(::geteuid()) +
               ", may not itself; add it to the group of the files";
    return who + "the mode bits of it, or of a folder on the way from the root \"" + root_->path +
           "\", do not let this user; allow it with chmod or chgrp";
}

}  // namespace sl
