#include "shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "shm/control_group.h"
#include "shm/layout.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U  // Linux 6.3; older headers lack the name
#endif

namespace sl {

namespace {

// What Boost asks of a mappable object.
struct FdHandle {
    int fd;
    [[nodiscard]] boost::interprocess::mapping_handle_t get_mapping_handle() const {
        boost::interprocess::mapping_handle_t handle{};
        handle.handle = fd;
        handle.is_xsi = false;
        return handle;
    }
};

int create_memfd(const char* name) {
    int fd = ::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) fd = ::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd;
}

Result<void> add_seals(int fd, int seals) {
    if (::fcntl(fd, F_ADD_SEALS, seals) != 0) {
        return std::unexpected(os_error(Status::kInternal, "cannot seal shared memory", errno));
    }
    return {};
}

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

// The sum of the named lines of a file of "name number ..." lines; nothing if it has none of them.
std::optional<std::uint64_t> sum_of(const char* path, std::initializer_list<std::string_view> names) {
    std::ifstream file(path);
    std::optional<std::uint64_t> sum;
    std::string name;
    std::uint64_t value = 0;
    for (std::string rest; file >> name >> value; std::getline(file, rest)) {
        if (std::ranges::find(names, name) != names.end()) sum = sum.value_or(0) + value;
    }
    return sum;
}

}  // namespace

Result<Mapping> Mapping::map(int fd, std::uint64_t bytes, Access access) {
    using boost::interprocess::mapped_region;
    try {
        Mapping mapping;
        mapping.region_ = mapped_region(
            FdHandle{fd},
            access == Access::kReadOnly ? boost::interprocess::read_only : boost::interprocess::read_write, 0,
            bytes);
        return mapping;
    } catch (const std::exception& error) {
        return fail(Status::kNoMemory, std::string("cannot map shared memory: ") + error.what());
    }
}

Result<Segment> Segment::create(const char* name, std::uint64_t bytes) {
    // The kernel would go on reserving until its memory killer ends somebody.
    if (std::uint64_t machine = available_memory(); bytes > machine) {
        return fail(Status::kNoMemory, "cannot reserve " + std::to_string(bytes) +
                                           " bytes of shared memory: the machine has only " +
                                           std::to_string(machine) + " available");
    }
    bytes = (std::max<std::uint64_t>(bytes, 1) + SL_SHM_PAGE - 1) / SL_SHM_PAGE * SL_SHM_PAGE;
    Segment segment;
    segment.fd_.reset(create_memfd(name));
    if (!segment.fd_) return std::unexpected(os_error(Status::kNoMemory, "memfd_create", errno));
    // Of a memfd's first descriptor the kernel does not count who holds it, of one that was opened it does:
    // KeptSegment asks for that count.
    auto counted = segment.reopened(O_RDWR);
    if (!counted) return std::unexpected(std::move(counted).error());
    segment.fd_ = std::move(*counted);
    int error = ::posix_fallocate(segment.fd_.get(), 0, static_cast<off_t>(bytes));
    if (error != 0) {
        return std::unexpected(os_error(
            Status::kNoMemory, "cannot reserve " + std::to_string(bytes) + " bytes of shared memory", error));
    }
    // Owner-read only: through /proc another user could else re-open even a read-only descriptor for writing.
    if (::fchmod(segment.fd_.get(), 0400) != 0) {
        return std::unexpected(os_error(Status::kInternal, "fchmod", errno));
    }
    auto mapping = Mapping::map(segment.fd_.get(), bytes, Access::kReadWrite);
    if (!mapping) return std::unexpected(std::move(mapping).error());
    segment.mapping_ = std::move(*mapping);
    return segment;
}

Result<void> Segment::seal_against_writers() {
    return add_seals(fd_.get(), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
}

Result<void> Segment::seal_size() {
    return add_seals(fd_.get(), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
}

Result<UniqueFd> Segment::reopened(int access) const {
    char path[32];
    std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd_.get());
    UniqueFd fd(::open(path, access | O_CLOEXEC));
    if (!fd) return std::unexpected(os_error(Status::kInternal, "cannot re-open shared memory", errno));
    return fd;
}

Result<UniqueFd> Segment::read_only_fd() const {
    return reopened(O_RDONLY);
}

std::uint64_t available_memory() {
    // A missing file means no limit.
    const std::uint64_t available =
        sum_of("/proc/meminfo", {"MemAvailable:"}).value_or(kNoLimit / 1024) * 1024;
    return std::min(available, ControlGroups().memory_left());
}

}  // namespace sl
