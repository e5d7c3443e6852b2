// What a directory's entries are: images, directories to be entered, and what is left out; see folder_scan.h.
#include <fcntl.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "io/folder_walker.h"

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

}  // namespace

std::string below(const std::string& directory, const char* name) {
    return directory.empty() ? name : directory + "/" + name;
}

SkipReason reason_of(int error) {
    if (error == ENOENT || error == ELOOP) return SkipReason::kBroken;
    if (error == EACCES || error == EPERM || error == EXDEV) return SkipReason::kDenied;
    return SkipReason::kFailed;
}

FolderWalker::Entry FolderWalker::classify(int directory, const dirent& entry, const Visit& visit) {
    unsigned char type = entry.d_type;
    struct stat status = {};
    if (type == DT_UNKNOWN) {
        if (::fstatat(directory, entry.d_name, &status, AT_SYMLINK_NOFOLLOW) < 0) {
            scan_.repeatable = false;  // its type is not known
            return {EntryKind::kSkipped, reason_of(errno)};
        }
        type = IFTODT(status.st_mode);
    }
    const bool is_link = type == DT_LNK;
    if (is_link) {
        int error = 0;
        if (reach_ != nullptr) {
            error = reach_->status((root_ + "/" + below(visit.path, entry.d_name)).c_str(), status);
        } else if (::fstatat(directory, entry.d_name, &status, 0) < 0) {
            error = errno;
        }
        keep_witness(link_witness(status, error), below(visit.path, entry.d_name));
        if (error != 0) return {EntryKind::kSkipped, reason_of(error)};
        type = IFTODT(status.st_mode);
    }
    if (type == DT_DIR) return {is_link ? EntryKind::kLinkedDirectory : EntryKind::kDirectory, {}};
    if (type == DT_REG) return {EntryKind::kFile, {}};
    return {EntryKind::kSkipped, SkipReason::kSpecial};
}

void FolderWalker::take_entry(int directory, const dirent& entry, const Visit& visit, SubDirectories& found) {
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

void FolderWalker::take_file(const char* name, const Visit& visit) {
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

void FolderWalker::keep_names(const Visit& visit, std::uint64_t first) {
    const std::uint64_t count = scan_.name_offsets.size() - first;
    if (count == 0) return;
    const char* names = scan_.names.data();
    std::sort(scan_.name_offsets.begin() + static_cast<std::ptrdiff_t>(first), scan_.name_offsets.end(),
              [names](auto a, auto b) { return std::strcmp(names + a, names + b) < 0; });
    scan_.directories.push_back({visit.path, visit.class_folder, first, count});
}

FolderWalker::Seen* FolderWalker::seen_in(const Visit& visit) {
    return visit.class_folder == FolderScan::kNoClass ? nullptr : &seen_[visit.class_folder];
}

// Waits, once a scan, for the clock to leave the tick in which the directory was changed: what was made just
// before the scan can then be trusted, and what is being changed meanwhile does not hold the scan up.
Witness FolderWalker::look(int fd, const struct stat& first) {
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

void FolderWalker::keep_witness(Witness witness, const std::string& path) {
    witness.path = scan_.witness_paths.size();
    scan_.witness_paths.append(path.c_str(), path.size() + 1);
    scan_.witnesses.push_back(witness);
}

}  // namespace sl
