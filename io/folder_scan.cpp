// See folder_scan.h.
#include "io/folder_scan.h"

#include <dirent.h>
#include <fcntl.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <utility>

namespace sl {

namespace {

// torchvision's IMG_EXTENSIONS, and what else the decoders of this project know.
constexpr std::array<std::string_view, 14> kImageExtensions = {".jpg", ".jpeg", ".png",  ".ppm",  ".bmp",
                                                               ".pgm", ".tif",  ".tiff", ".webp", ".gif",
                                                               ".jpe", ".jfif", ".heic", ".avif"};

bool is_image_name(const char* name) {
    const char* dot = std::strrchr(name, '.');
    return dot != nullptr && std::any_of(kImageExtensions.begin(), kImageExtensions.end(),
                                         [dot](auto known) { return ::strcasecmp(dot, known.data()) == 0; });
}

std::string below(const std::string& directory, const char* name) {
    return directory.empty() ? name : directory + "/" + name;
}

enum class EntryKind { kFile, kDirectory, kLinkedDirectory, kSkipped };

struct Entry {
    EntryKind kind = EntryKind::kFile;
    SkipReason why = SkipReason::kFailed;  // of kSkipped
};

Entry skipped_by(int error) {
    if (error == ENOENT || error == ELOOP) return {EntryKind::kSkipped, SkipReason::kBroken};
    if (error == EACCES || error == EPERM) return {EntryKind::kSkipped, SkipReason::kDenied};
    return {EntryKind::kSkipped, SkipReason::kFailed};
}

class Walker {
  public:
    Walker(std::string root, ScanProgress* progress) : root_(std::move(root)), progress_(progress) {}

    Result<FolderScan> run();

  private:
    struct Visit {
        std::string path;
        std::uint32_t class_folder = FolderScan::kNoClass;
    };
    struct SubDirectories {
        std::vector<std::string> real;
        std::vector<std::string> linked;
    };
    struct Seen {  // of one class folder, to decide whether it is one
        bool entered = false;
        bool readable = true;
        std::uint64_t others = 0;
        std::uint64_t hidden = 0;
    };

    std::optional<Error> enter_ancestors();
    Result<SubDirectories> list_root();
    void visit_all();
    void visit(const Visit& visit);
    void note_failure(const Visit& visit, int error);
    int list(const Visit& visit, SubDirectories& found);
    Witness look(int fd, const struct stat& first);
    Entry classify(int directory, const dirent& entry, const Visit& visit);
    void take_entry(int directory, const dirent& entry, const Visit& visit, SubDirectories& found);
    void take_file(const char* name, const Visit& visit);
    void keep_names(const Visit& visit, std::uint64_t first);
    void keep_witness(Witness witness, const std::string& path);
    Seen* seen_in(const Visit& visit);
    void decide_classes();

    std::string root_;
    FolderScan scan_;
    std::set<std::pair<dev_t, ino_t>> entered_;
    std::vector<Visit> real_;   // a stack
    std::deque<Visit> linked_;  // followed when no real directory is left
    std::vector<Seen> seen_;    // per class folder
    ScanProgress* progress_;    // may be null
    bool has_waited_ = false;   // for the clock of file times
};

Error root_error(const std::string& root, int error) {
    std::string name = "dataset folder \"" + root + "\"";
    if (error == ENOENT) return {Status::kNotFound, name + " does not exist", error};
    if (error == ENOTDIR) return {Status::kDataset, name + " is not a folder", error};
    Status status = error == EACCES || error == EPERM ? Status::kDenied : Status::kIo;
    return os_error(status, name + " cannot be read", error);
}

// The root and the folders above it count as entered: a link `loop -> ..` leads out of the dataset, and
// into it again.
std::optional<Error> Walker::enter_ancestors() {
    std::string path = root_;
    for (bool is_new = true; is_new; path += "/..") {
        struct stat status = {};
        if (::stat(path.c_str(), &status) < 0) {
            if (path.size() > root_.size()) break;  // above the root there is nothing we must see
            return root_error(root_, errno);
        }
        if (!S_ISDIR(status.st_mode)) return root_error(root_, ENOTDIR);
        is_new = entered_.emplace(status.st_dev, status.st_ino).second;
    }
    return std::nullopt;
}

Result<FolderScan> Walker::run() {
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

Result<Walker::SubDirectories> Walker::list_root() {
    SubDirectories found;
    if (int error = list({"", FolderScan::kNoClass}, found)) return std::unexpected(root_error(root_, error));
    return found;
}

void Walker::visit_all() {
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

void Walker::visit(const Visit& visit) {
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
        scan_.report.add(skipped_by(error).why, visit.path + " (" + std::strerror(error) + ")");
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
void Walker::note_failure(const Visit& visit, int error) {
    if (error != EACCES && error != EPERM) {
        scan_.repeatable = false;
        return;
    }
    Witness witness;
    witness.kind = Witness::kUnreadable;
    witness.error = static_cast<std::uint16_t>(error);
    keep_witness(witness, visit.path);
}

// Waits, once a scan, for the clock to leave the tick in which the directory was changed: what was made just
// before the scan can then be trusted, and what is being changed meanwhile does not hold the scan up.
Witness Walker::look(int fd, const struct stat& first) {
    Witness witness = directory_witness(first, file_clock_ns());
    if (witness.mtime_ns == kNotTrusted && !has_waited_) {
        has_waited_ = true;
        const timespec tick{0, kClockTick};
        ::nanosleep(&tick, nullptr);
        struct stat again = {};
        if (::fstat(fd, &again) == 0) witness = directory_witness(again, file_clock_ns());
    }
    if (witness.mtime_ns == kNotTrusted) scan_.repeatable = false;
    return witness;
}

void Walker::keep_witness(Witness witness, const std::string& path) {
    witness.path = scan_.witness_paths.size();
    scan_.witness_paths.append(path.c_str(), path.size() + 1);
    scan_.witnesses.push_back(witness);
}

// 0, or an errno; EEXIST: entered before. What was listed before an error is kept.
int Walker::list(const Visit& visit, SubDirectories& found) {
    std::string path = visit.path.empty() ? root_ : root_ + "/" + visit.path;
    int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return errno;
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

Entry Walker::classify(int directory, const dirent& entry, const Visit& visit) {
    unsigned char type = entry.d_type;
    struct stat status = {};
    if (type == DT_UNKNOWN) {
        if (::fstatat(directory, entry.d_name, &status, AT_SYMLINK_NOFOLLOW) < 0) {
            scan_.repeatable = false;  // its type is not known
            return skipped_by(errno);
        }
        type = IFTODT(status.st_mode);
    }
    const bool is_link = type == DT_LNK;
    if (is_link) {
        const int error = ::fstatat(directory, entry.d_name, &status, 0) < 0 ? errno : 0;
        keep_witness(link_witness(status, error), below(visit.path, entry.d_name));
        if (error != 0) return skipped_by(error);
        type = IFTODT(status.st_mode);
    }
    if (type == DT_DIR) return {is_link ? EntryKind::kLinkedDirectory : EntryKind::kDirectory, {}};
    if (type == DT_REG) return {EntryKind::kFile, {}};
    return {EntryKind::kSkipped, SkipReason::kSpecial};
}

void Walker::take_entry(int directory, const dirent& entry, const Visit& visit, SubDirectories& found) {
    const char* name = entry.d_name;
    if (std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0) return;
    const bool is_thumbs = ::strcasecmp(name, "Thumbs.db") == 0;
    if (name[0] == '.' || is_thumbs) {
        if (Seen* seen = seen_in(visit)) ++seen->hidden;
        scan_.report.add(is_thumbs ? SkipReason::kThumbs : SkipReason::kHidden, below(visit.path, name));
        return;
    }
    Entry kind = classify(directory, entry, visit);
    switch (kind.kind) {
        case EntryKind::kFile:
            take_file(name, visit);
            break;
        case EntryKind::kDirectory:
            found.real.emplace_back(name);
            break;
        case EntryKind::kLinkedDirectory:
            found.linked.emplace_back(name);
            break;
        case EntryKind::kSkipped:
            if (Seen* seen = seen_in(visit)) ++seen->others;
            scan_.report.add(kind.why, below(visit.path, name));
            break;
    }
}

void Walker::take_file(const char* name, const Visit& visit) {
    Seen* seen = seen_in(visit);
    if (!is_image_name(name)) {
        if (seen != nullptr) ++seen->others;
        scan_.report.add(SkipReason::kOther, below(visit.path, name));
        return;
    }
    if (seen != nullptr) ++scan_.class_folders[visit.class_folder].images;
    scan_.name_offsets.push_back(scan_.names.size());
    scan_.names.append(name, std::strlen(name) + 1);
    if (progress_ != nullptr) progress_->images.store(scan_.name_offsets.size(), std::memory_order_relaxed);
}

void Walker::keep_names(const Visit& visit, std::uint64_t first) {
    const std::uint64_t count = scan_.name_offsets.size() - first;
    if (count == 0) return;
    const char* names = scan_.names.data();
    std::sort(scan_.name_offsets.begin() + static_cast<std::ptrdiff_t>(first), scan_.name_offsets.end(),
              [names](auto a, auto b) { return std::strcmp(names + a, names + b) < 0; });
    scan_.directories.push_back({visit.path, visit.class_folder, first, count});
}

Walker::Seen* Walker::seen_in(const Visit& visit) {
    return visit.class_folder == FolderScan::kNoClass ? nullptr : &seen_[visit.class_folder];
}

// An empty class folder keeps its number, and so does an unreadable one: labels must not move because of it.
void Walker::decide_classes() {
    for (std::size_t i = 0; i < seen_.size(); ++i) {
        auto& folder = scan_.class_folders[i];
        const Seen& seen = seen_[i];
        const bool only_hidden = seen.readable && folder.images == 0 && seen.others == 0 && seen.hidden > 0;
        folder.exists = seen.entered && !only_hidden;
    }
}

}  // namespace

Result<FolderScan> scan_folder(const std::string& root, ScanProgress* progress) {
    return Walker(root, progress).run();
}

}  // namespace sl
