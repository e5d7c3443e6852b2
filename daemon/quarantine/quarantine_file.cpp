// See quarantine_file.h.
#include "daemon/quarantine/quarantine_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <vector>

#include "shm/fd.h"

namespace sl {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostBytes = 64 << 20;

std::string absolute_folder(const char* name) {
    const char* value = ::secure_getenv(name);
    return value != nullptr && value[0] == '/' ? value : "";
}

SampleErrorKind kind_named(std::string_view name) {
    for (std::uint32_t i = 1; i < static_cast<std::uint32_t>(SampleErrorKind::kCount); ++i) {
        if (to_string(static_cast<SampleErrorKind>(i)) == name) return static_cast<SampleErrorKind>(i);
    }
    return SampleErrorKind::kNone;
}

// False if the line is not one of ours.
bool parse_line(std::string_view line, QuarantineEntries& entries) {
    Json json = Json::parse(line, nullptr, false);
    if (!json.is_object()) return false;
    try {
        QuarantineEntry entry;
        entry.size = json.at("size").get<std::uint64_t>();
        entry.mtime_ns = json.at("mtime_ns").get<std::int64_t>();
        entry.kind = kind_named(json.at("kind").get<std::string>());
        entry.reason = json.at("reason").get<std::string>();
        entry.offset = json.at("offset").get<std::int64_t>();
        entry.time = json.at("time").get<std::int64_t>();
        entry.context = json.at("context").get<std::uint64_t>();
        entry.version = json.at("version").get<std::string>();
        if (entry.kind == SampleErrorKind::kNone) return false;
        entries[json.at("path").get<std::string>()] = std::move(entry);
    } catch (const Json::exception&) {
        return false;
    }
    return true;
}

QuarantineContent parse(std::string_view text) {
    QuarantineContent content;
    for (std::size_t number = 1; !text.empty(); ++number) {
        auto end = text.find('\n');
        if (end == std::string_view::npos || !parse_line(text.substr(0, end), content.entries)) {
            content.entries.clear();
            content.damage = "line " + std::to_string(number) + " is damaged";
            return content;
        }
        text.remove_prefix(end + 1);
    }
    return content;
}

// Paths that are not UTF-8 are left out: JSON cannot hold them.
std::string write_out(const QuarantineEntries& entries) {
    std::string text;
    for (const auto& [path, entry] : entries) {
        Json json = {{"path", path},
                     {"size", entry.size},
                     {"mtime_ns", entry.mtime_ns},
                     {"kind", to_string(entry.kind)},
                     {"reason", entry.reason},
                     {"offset", entry.offset},
                     {"time", entry.time},
                     {"context", entry.context},
                     {"version", entry.version}};
        try {
            text += json.dump() + "\n";
        } catch (const Json::exception&) {
            continue;
        }
    }
    return text;
}

void drop_oldest(QuarantineEntries& entries) {
    if (entries.size() <= kMostQuarantined) return;
    std::vector<std::pair<std::int64_t, std::string>> by_age;
    for (const auto& [path, entry] : entries)
        by_age.emplace_back(entry.time, path);
    std::ranges::sort(by_age);
    by_age.resize(entries.size() - kMostQuarantined);
    for (const auto& [time, path] : by_age)
        entries.erase(path);
}

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
    while (::flock(fd.get(), LOCK_EX) != 0) {
        if (errno != EINTR) return std::unexpected(os_error(Status::kIo, "cannot lock " + name, errno));
    }
    return fd;
}

}  // namespace

std::string quarantine_path() {
    std::string cache = absolute_folder("XDG_CACHE_HOME");
    if (cache.empty()) {
        std::string home = absolute_folder("HOME");
        if (home.empty()) return "";
        cache = home + "/.cache";
    }
    return cache + "/speedyloader/quarantine";
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
    if (status.st_size > kMostBytes) {
        content.damage = "it has " + std::to_string(status.st_size) + " bytes";
    } else {
        auto text = read_all(fd.get(), status.st_size);
        if (!text) return std::unexpected(std::move(text).error());
        content = parse(*text);
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
    drop_oldest(content->entries);
    if (content->entries == before && content->damage.empty()) return content;
    if (auto written = replace(path, write_out(content->entries)); !written) {
        return std::unexpected(std::move(written).error());
    }
    content->signature = quarantine_signature(path);
    return content;
}

}  // namespace sl
