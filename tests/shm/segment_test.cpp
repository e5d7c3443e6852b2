// Shared memory: reserved before it is promised, and closed to writers once it is sealed (promises 5 and 6).
//
// The checks that need root (another user, a small /dev/shm) skip with a reason where they cannot run.
#include "shm/segment.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <csignal>
#include <cstring>
#include <limits>
#include <string>

#include "tests/cmocka_cpp.h"
#include "tests/shm/child.h"

namespace sl {
namespace {

constexpr std::uint64_t kMiB = 1U << 20;
constexpr uid_t kNobody = 65534;
constexpr int kSkipped = 77;

Segment make_segment(std::uint64_t bytes) {
    auto segment = Segment::create("test", bytes);
    if (!segment) fail_msg("%s", segment.error().message.c_str());
    return std::move(*segment);
}

UniqueFd reader_of(const Segment& segment) {
    auto fd = segment.read_only_fd();
    if (!fd) fail_msg("%s", fd.error().message.c_str());
    return std::move(*fd);
}

// Whether a new shared map of `fd` with these rights can be made.
bool can_map(int fd, int rights) {
    void* address = ::mmap(nullptr, 4096, rights, MAP_SHARED, fd, 0);
    if (address == MAP_FAILED) return false;
    ::munmap(address, 4096);
    return true;
}

int open_again(int fd, int flags) {
    const std::string path = "/proc/self/fd/" + std::to_string(fd);
    return ::open(path.c_str(), flags | O_CLOEXEC);
}

bool become_nobody() {
    return ::setgroups(0, nullptr) == 0 && ::setgid(kNobody) == 0 && ::setuid(kNobody) == 0;
}

void every_page_is_allocated_before_anybody_touches_one(void**) {
    Segment segment = make_segment(16 * kMiB);
    struct stat status {};
    assert_int_equal(::fstat(segment.writable_fd(), &status), 0);
    assert_int_equal(status.st_size, 16 * kMiB);
    assert_true(static_cast<std::uint64_t>(status.st_blocks) * 512 >= 16 * kMiB);
}

void a_size_is_rounded_up_to_whole_pages_and_reads_as_zeros(void**) {
    Segment segment = make_segment(4097);
    assert_int_equal(segment.size(), 8192);
    for (std::byte byte : segment.bytes())
        assert_true(byte == std::byte{0});
    assert_int_equal(make_segment(0).size(), 4096);
}

void more_than_the_machine_has_is_no_memory_with_the_numbers_and_no_signal(void**) {
    for (std::uint64_t bytes :
         {std::uint64_t{1} << 50, std::uint64_t{1} << 62, std::numeric_limits<std::uint64_t>::max()}) {
        auto segment = Segment::create("test", bytes);
        assert_false(segment.has_value());
        assert_true(segment.error().status == Status::kNoMemory);
        assert_non_null(std::strstr(segment.error().message.c_str(), std::to_string(bytes).c_str()));
    }
}

void a_reservation_that_the_kernel_refuses_is_no_memory_with_its_reason(void**) {
    const int result = run_in_child([] {
        ::signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{kMiB, kMiB};
        if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
        auto segment = Segment::create("test", 2 * kMiB);
        if (segment) return 3;
        if (segment.error().status != Status::kNoMemory || segment.error().os_errno != EFBIG) return 4;
        return segment.error().message.find("2097152 bytes") != std::string::npos ? 0 : 5;
    });
    assert_int_equal(result, 0);
}

void a_sealed_segment_takes_no_new_writable_map_from_any_descriptor(void**) {
    Segment segment = make_segment(kMiB);
    assert_true(can_map(segment.writable_fd(), PROT_READ | PROT_WRITE));
    assert_true(segment.seal_against_writers().has_value());
    assert_false(can_map(segment.writable_fd(), PROT_READ | PROT_WRITE));
    assert_true(can_map(segment.writable_fd(), PROT_READ));
}

void a_sealed_segment_cannot_be_written_through_write_or_mprotect(void**) {
    Segment segment = make_segment(kMiB);
    assert_true(segment.seal_against_writers().has_value());
    assert_int_equal(::pwrite(segment.writable_fd(), "x", 1, 0), -1);
    assert_int_equal(errno, EPERM);
    void* map = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, segment.writable_fd(), 0);
    assert_true(map != MAP_FAILED);
    assert_int_equal(::mprotect(map, 4096, PROT_READ | PROT_WRITE), -1);
    ::munmap(map, 4096);
}

void the_owners_map_keeps_working_after_the_seal_and_readers_see_it(void**) {
    Segment segment = make_segment(kMiB);
    assert_true(segment.seal_against_writers().has_value());
    auto map = Mapping::map(reader_of(segment).get(), segment.size(), Access::kReadOnly);
    assert_true(map.has_value());
    segment.data()[kMiB - 1] = std::byte{42};
    assert_true(map->data()[kMiB - 1] == std::byte{42});
}

void sealing_freezes_the_size_and_the_seals(void**) {
    Segment sealed = make_segment(kMiB);
    Segment sized = make_segment(kMiB);
    assert_true(sealed.seal_against_writers().has_value());
    assert_true(sized.seal_size().has_value());
    for (int fd : {sealed.writable_fd(), sized.writable_fd()}) {
        for (off_t bytes : {off_t{0}, off_t{4096}, off_t{2 * kMiB}}) {
            assert_int_equal(::ftruncate(fd, bytes), -1);
            assert_int_equal(errno, EPERM);
        }
        assert_int_equal(::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    }
    assert_true(can_map(sized.writable_fd(), PROT_READ | PROT_WRITE));
}

void a_read_only_descriptor_cannot_be_mapped_writable_even_without_a_seal(void**) {
    Segment segment = make_segment(kMiB);
    UniqueFd reader = reader_of(segment);
    assert_true(can_map(reader.get(), PROT_READ));
    assert_false(can_map(reader.get(), PROT_READ | PROT_WRITE));
    assert_false(Mapping::map(reader.get(), kMiB, Access::kReadWrite).has_value());
}

void another_user_cannot_reopen_a_read_only_descriptor_for_writing(void**) {
    if (::geteuid() != 0) {
        print_message("skipped: only root can act as another user\n");
        skip();
    }
    Segment segment = make_segment(kMiB);  // not sealed: its mode alone must hold
    UniqueFd reader = reader_of(segment);
    const int result = run_in_child([&] {
        if (!become_nobody()) return 2;
        if (!can_map(reader.get(), PROT_READ)) return 3;
        if (open_again(reader.get(), O_RDWR) >= 0 || errno != EACCES) return 4;
        if (open_again(reader.get(), O_WRONLY) >= 0 || errno != EACCES) return 5;
        return ::fchmod(reader.get(), 0666) == 0 ? 6 : 0;
    });
    assert_int_equal(result, 0);
}

void even_root_maps_a_sealed_segment_read_only(void**) {
    if (::geteuid() != 0) {
        print_message("skipped: not root\n");
        skip();
    }
    Segment segment = make_segment(kMiB);
    assert_true(segment.seal_against_writers().has_value());
    UniqueFd again(open_again(reader_of(segment).get(), O_RDWR));
    assert_true(static_cast<bool>(again));
    assert_false(can_map(again.get(), PROT_READ | PROT_WRITE));
}

void a_segment_leaves_nothing_behind(void**) {
    struct stat status {};
    Segment segment = make_segment(kMiB);
    assert_int_equal(::fstat(segment.writable_fd(), &status), 0);
    assert_int_equal(status.st_nlink, 0);
}

// Touches a quarter gigabyte where /dev/shm holds 64 MB. A fault of memory would end the child by SIGBUS.
int touch_more_than_a_small_dev_shm_holds() {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=64m") != 0) {
        return kSkipped;
    }
    struct statvfs small {};
    if (::statvfs("/dev/shm", &small) != 0 || small.f_blocks * small.f_frsize != 64 * kMiB) return 2;
    auto segment = Segment::create("test", 256 * kMiB);
    if (!segment) return 3;
    for (std::uint64_t at = 0; at < segment->size(); at += 4096)
        segment->data()[at] = std::byte{1};
    auto fd = segment->read_only_fd();
    if (!fd) return 4;
    auto map = Mapping::map(fd->get(), segment->size(), Access::kReadOnly);
    if (!map) return 5;
    for (std::uint64_t at = 0; at < map->size(); at += 4096) {
        if (map->data()[at] != std::byte{1}) return 6;
    }
    return 0;
}

void LDR_09_a_small_dev_shm_limits_nothing_and_no_page_raises_SIGBUS(void**) {
    const int result = run_in_child(touch_more_than_a_small_dev_shm_holds);
    if (result == kSkipped) {
        print_message("skipped: no permission to mount a small /dev/shm\n");
        skip();
    }
    assert_int_equal(result, 0);
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(every_page_is_allocated_before_anybody_touches_one),
        cmocka_unit_test(a_size_is_rounded_up_to_whole_pages_and_reads_as_zeros),
        cmocka_unit_test(more_than_the_machine_has_is_no_memory_with_the_numbers_and_no_signal),
        cmocka_unit_test(a_reservation_that_the_kernel_refuses_is_no_memory_with_its_reason),
        cmocka_unit_test(a_sealed_segment_takes_no_new_writable_map_from_any_descriptor),
        cmocka_unit_test(a_sealed_segment_cannot_be_written_through_write_or_mprotect),
        cmocka_unit_test(the_owners_map_keeps_working_after_the_seal_and_readers_see_it),
        cmocka_unit_test(sealing_freezes_the_size_and_the_seals),
        cmocka_unit_test(a_read_only_descriptor_cannot_be_mapped_writable_even_without_a_seal),
        cmocka_unit_test(another_user_cannot_reopen_a_read_only_descriptor_for_writing),
        cmocka_unit_test(even_root_maps_a_sealed_segment_read_only),
        cmocka_unit_test(a_segment_leaves_nothing_behind),
        cmocka_unit_test(LDR_09_a_small_dev_shm_limits_nothing_and_no_page_raises_SIGBUS),
    };
    return cmocka_run_group_tests_name("shm/segment", tests, nullptr, nullptr);
}
