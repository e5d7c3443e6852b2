// See manifest_file.h.
#include "io/manifest_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "io/cache_folder.h"
#include "io/manifest_room.h"
#include "shm/fd.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sl {

namespace {

std::unexpected<Error> io_failure(const std::string& what, int error = errno) {
    return std::unexpected(os_error(Status::kIo, what, error));
}

// The file to write, locked: a name of its own for each manifest, so that a writer that was killed leaves one
// file at most, which the next one takes over. EWOULDBLOCK: somebody else is writing.
Result<UniqueFd> open_for_writing(const std::string& path) {
    UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return io_failure("cannot create " + path);
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return io_failure("cannot lock " + path);
    // Whoever held the lock may have given this very file its final name.
    struct stat ours = {};
    struct stat named = {};
    if (::fstat(file.get(), &ours) != 0 || ::stat(path.c_str(), &named) != 0 || ours.st_ino != named.st_ino) {
        return io_failure("cannot lock " + path, EWOULDBLOCK);
    }
    if (::ftruncate(file.get(), 0) != 0) return io_failure("cannot empty " + path);
    return file;
}

bool write_whole(int fd, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        ssize_t written = ::write(fd, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return true;
}

}  // namespace

std::string user_manifest_folder() {
    return user_cache_path("manifests");
}

std::string manifest_path(const std::string& cache_folder, const std::string& root) {
    char name[24];
    std::snprintf(name, sizeof name, "/%016llx",
                  static_cast<unsigned long long>(XXH3_64bits(root.data(), root.size())));
    return cache_folder + name;
}

Result<Manifest> load_manifest(const std::string& path, const std::string& root) {
    UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file && errno == ENOENT) return fail(Status::kNotFound, "there was none");
    struct stat status = {};
    if (!file || ::fstat(file.get(), &status) != 0) {
        return std::unexpected(os_error(Status::kDenied, "it cannot be opened", errno));
    }
    if (!S_ISREG(status.st_mode)) return fail(Status::kDataset, "it is no file");
    if (status.st_uid != ::geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return fail(Status::kDenied, "others can write it");
    }
    return Manifest::read(file.get(), static_cast<std::uint64_t>(status.st_size), root);
}

void touch_manifest(const std::string& path) {
    ::utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

Result<void> save_manifest(const std::string& path, const Manifest& manifest) {
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) return io_failure("cannot make " + folder.string(), error.value());
    const std::string temporary = path + ".new";
    auto file = open_for_writing(temporary);
    if (!file) return std::unexpected(std::move(file).error());
    if (!write_whole(file->get(), manifest.bytes()) || ::fsync(file->get()) != 0) {
        const int failed = errno;
        ::unlink(temporary.c_str());
        return io_failure("cannot write " + temporary, failed);
    }
    if (::rename(temporary.c_str(), path.c_str()) != 0) return io_failure("cannot rename " + temporary);
    UniqueFd directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (directory) ::fsync(directory.get());  // a name lost in a power cut costs a scan
    make_manifest_room(folder.string(), path);
    return {};
}

}  // namespace sl
