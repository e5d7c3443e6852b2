// See folder_scan.h: which directories are entered, and in what order. What is in one: folder_entries.cpp.

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "io/folder_walker.h"

namespace sl {

namespace {

Error root_error(const std::string& root, int error, const Reach* reach) {
    std::string name = "dataset folder \"" + root + "\"";
    if (error == ENOENT) return {Status::kNotFound, name + " does not exist", error};
    if (error == ENOTDIR) return {Status::kDataset, name + " is not a folder", error};
    const bool denied = error == EACCES || error == EPERM || error == EXDEV;
    if (reach != nullptr && denied)
        return {Status::kDenied, reach->explain(root, error), error == EPERM ? EACCES : error};
    Status status = error == EACCES || error == EPERM ? Status::kDenied : Status::kIo;
    return os_error(status, name + " cannot be read", error);
}

}  // namespace

// The root and the folders above it count as entered: a link `loop -> ..` leads out of the dataset, and
// into it again.
std::optional<Error> FolderWalker::enter_ancestors() {
    std::string path = root_;
    for (bool is_new = true; is_new; path += "/..") {
        struct stat status = {};
        if (int error = status_of(path, status)) {
            if (path.size() > root_.size()) break;  // above the root there is nothing we must see
            return root_error(root_, error, reach_);
        }
        if (!S_ISDIR(status.st_mode)) return root_error(root_, ENOTDIR, reach_);
        is_new = entered_.emplace(status.st_dev, status.st_ino).second;
    }
    return std::nullopt;
}

// As stat, 0 or an errno.
int FolderWalker::status_of(const std::string& path, struct stat& status) const {
    if (reach_ != nullptr) return reach_->status(path.c_str(), status);
    return ::stat(path.c_str(), &status) < 0 ? errno : 0;
}

Result<FolderScan> FolderWalker::run() {
    if (auto error = enter_ancestors()) return std::unexpected(std::move(*error));
    auto folders = list_root();
    if (!folders) return std::unexpected(std::move(folders.error()));

    std::vector<std::pair<std::string, bool>> named;  // name, is a link
    for (auto& name : folders->real)
        named.emplace_back(std::move(name), false);
    for (auto& name : folders->linked)
        named.emplace_back(std::move(name), true);
    std::sort(named.begin(), named.end());
    seen_.resize(named.size());
    for (auto& [name, is_link] : named) {
        auto index = static_cast<std::uint32_t>(scan_.class_folders.size());
        Visit visit{name, index};
        is_link ? linked_.push_back(std::move(visit)) : real_.push_back(std::move(visit));
        scan_.class_folders.push_back({std::move(name), 0, true});
    }
    visit_all();
    decide_classes();
    return std::move(scan_);
}

Result<FolderWalker::SubDirectories> FolderWalker::list_root() {
    SubDirectories found;
    if (int error = list({"", FolderScan::kNoClass}, found))
        return std::unexpected(root_error(root_, error, reach_));
    return found;
}

void FolderWalker::visit_all() {
    while (!real_.empty() || !linked_.empty()) {
        Visit next;
        if (!real_.empty()) {
            next = std::move(real_.back());
            real_.pop_back();
        } else {
            next = std::move(linked_.front());
            linked_.pop_front();
        }
        visit(next);
    }
}

void FolderWalker::visit(const Visit& visit) {
    SubDirectories found;
    int error = list(visit, found);
    if (error == EEXIST) {
        scan_.report.add(SkipReason::kRepeated, visit.path);
        return;
    }
    Seen& seen = seen_[visit.class_folder];
    seen.entered = true;
    if (error != 0) {
        seen.readable = false;
        note_failure(visit, error);
        scan_.report.add(reason_of(error), visit.path + " (" + std::strerror(error) + ")");
    }
    for (auto& name : found.real)
        real_.push_back({below(visit.path, name.c_str()), visit.class_folder});
    // Sorted, so that of two links to one directory the same one gets it on every file system.
    std::sort(found.linked.begin(), found.linked.end());
    for (auto& name : found.linked)
        linked_.push_back({below(visit.path, name.c_str()), visit.class_folder});
}

// A directory that will not open can be looked at again; one whose listing broke off, or that has gone,
// cannot.
void FolderWalker::note_failure(const Visit& visit, int error) {
    if (error != EACCES && error != EPERM) {
        scan_.repeatable = false;
        return;
    }
    Witness witness;
    witness.kind = Witness::kUnreadable;
    witness.error = static_cast<std::uint16_t>(error);
    keep_witness(witness, visit.path);
}

// 0, or an errno; EEXIST: entered before. What was listed before an error is kept.
int FolderWalker::list(const Visit& visit, SubDirectories& found) {
    std::string path = visit.path.empty() ? root_ : root_ + "/" + visit.path;
    constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    int fd = reach_ != nullptr ? reach_->open(path.c_str(), kFlags) : ::open(path.c_str(), kFlags);
    if (fd < 0) return reach_ != nullptr ? -fd : errno;
    std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(fd), &::closedir);
    if (!stream) {
        int error = errno;
        ::close(fd);
        return error;
    }
    struct stat status = {};
    if (::fstat(fd, &status) < 0) return errno;
    const bool is_root = visit.path.empty();
    if (!is_root && !entered_.emplace(status.st_dev, status.st_ino).second) return EEXIST;

    keep_witness(look(fd, status), visit.path);
    ++scan_.report.directories;
    if (progress_ != nullptr)
        progress_->directories.store(scan_.report.directories, std::memory_order_relaxed);
    const std::uint64_t first = scan_.name_offsets.size();
    errno = 0;
    while (const dirent* entry = ::readdir(stream.get())) {
        take_entry(fd, *entry, visit, found);
        errno = 0;
    }
    int error = errno;
    keep_names(visit, first);
    return error;
}

// An empty class folder keeps its number, and so does an unreadable one: labels must not move because of it.
void FolderWalker::decide_classes() {
    for (std::size_t i = 0; i < seen_.size(); ++i) {
        auto& folder = scan_.class_folders[i];
        const Seen& seen = seen_[i];
        const bool only_hidden = seen.readable && folder.images == 0 && seen.others == 0 && seen.hidden > 0;
        folder.exists = seen.entered && !only_hidden;
    }
}

Result<FolderScan> scan_folder(const std::string& root, ScanProgress* progress, const Reach* reach) {
    return FolderWalker(root, progress, reach).run();
}

}  // namespace sl
