// See quarantine_file.h.
#include "daemon/quarantine/quarantine_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>

#include "daemon/quarantine/quarantine_lines.h"
#include "io/cache_folder.h"
#include "shm/fd.h"

namespace sl {

namespace {

// Writers hold the lock for one reading and one writing; one that is stopped holds nobody up for ever.
constexpr std::chrono::seconds kLockWait{3};
constexpr std::chrono::milliseconds kLockPause{5};

std::string signature_of(const struct stat& status) {
    return std::to_string(status.st_ino) + ":" + std::to_string(status.st_size) + ":" +
           std::to_string(status.st_mtim.tv_sec) + "." + std::to_string(status.st_mtim.tv_nsec);
}

Result<std::string> read_all(int fd, std::int64_t size) {
    std::string text(static_cast<std::size_t>(size), '\0');
    std::size_t done = 0;
    while (done < text.size()) {
        ssize_t got = ::read(fd, text.data() + done, text.size() - done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return std::unexpected(os_error(Status::kIo, "cannot read the quarantine", errno));
        if (got == 0) break;
        done += static_cast<std::size_t>(got);
    }
    text.resize(done);
    return text;
}

bool write_all(int fd, std::string_view text) {
    while (!text.empty()) {
        ssize_t written = ::write(fd, text.data(), text.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        text.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
}

// A new file beside the old one, then a rename: nobody ever sees half of it.
Result<void> replace(const std::string& path, std::string_view text) {
    const std::string fresh = path + ".new";  // one name is enough: the caller holds the lock
    ::unlink(fresh.c_str());
    UniqueFd fd(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    bool good = fd && write_all(fd.get(), text) && ::fsync(fd.get()) == 0 &&
                ::rename(fresh.c_str(), path.c_str()) == 0;
    if (good) return {};
    Error error = os_error(Status::kIo, "cannot write " + path, errno);
    ::unlink(fresh.c_str());
    return std::unexpected(std::move(error));
}

Result<UniqueFd> lock(const std::string& path) {
    std::error_code error;
    auto folder = std::filesystem::path(path).parent_path();
    if (std::filesystem::create_directories(folder, error)) ::chmod(folder.c_str(), 0700);
    const std::string name = path + ".lock";
    UniqueFd fd(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd) return std::unexpected(os_error(Status::kIo, "cannot open " + name, errno));
    const auto deadline = std::chrono::steady_clock::now() + kLockWait;
    while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
        const int failed = errno;
        if ((failed != EINTR && failed != EWOULDBLOCK) || std::chrono::steady_clock::now() > deadline) {
            return std::unexpected(os_error(Status::kIo, "cannot lock " + name, failed));
        }
        std::this_thread::sleep_for(kLockPause);
    }
    return fd;
}

}  // namespace

std::string quarantine_path() {
    return user_cache_path("quarantine");
}

std::string quarantine_signature(const std::string& path) {
    struct stat status = {};
    return ::lstat(path.c_str(), &status) == 0 ? signature_of(status) : "";
}

Result<QuarantineContent> load_quarantine(const std::string& path) {
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!fd && (errno == ENOENT || errno == ENOTDIR)) return QuarantineContent{};
    if (!fd) return std::unexpected(os_error(Status::kIo, "cannot open " + path, errno));
    struct stat status = {};
    if (::fstat(fd.get(), &status) != 0) return std::unexpected(os_error(Status::kIo, path, errno));
    if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & 022) != 0) {
        return fail(Status::kDenied, path + " is not believed: it must be a file of user " +
                                         std::to_string(::geteuid()) + " that nobody else may write");
    }
    QuarantineContent content;
    if (status.st_size > kMostQuarantineBytes) {
        content.damage = "it has " + std::to_string(status.st_size) + " bytes";
    } else {
        auto text = read_all(fd.get(), status.st_size);
        if (!text) return std::unexpected(std::move(text).error());
        content = parse_quarantine(*text);
    }
    content.signature = signature_of(status);
    return content;
}

Result<QuarantineContent> update_quarantine(const std::string& path,
                                            const std::function<void(QuarantineEntries&)>& change) {
    auto locked = lock(path);
    if (!locked) return std::unexpected(std::move(locked).error());
    auto content = load_quarantine(path);
    if (!content) return content;
    QuarantineEntries before = content->entries;
    change(content->entries);
    if (content->entries == before && content->damage.empty()) return content;
    const std::string text = write_quarantine(content->entries);
    if (auto written = replace(path, text); !written) {
        return std::unexpected(std::move(written).error());
    }
    content->signature = quarantine_signature(path);
    return content;
}

}  // namespace sl
