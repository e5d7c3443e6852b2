// The cache folder of manifests stays within its bounds, whatever was scanned: the ones used longest ago go.
// Files are real and as many as the bounds say; the large ones are sparse.
#include "io/manifest_room.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <vector>

#include "shm/fd.h"
#include "tests/reader/manifest_place.h"

namespace sl::testing {
namespace {

std::string cached(const Place& place, const std::string& name) {
    return place.temporary.path("cache/") + name;
}

std::string name_of(unsigned number) {
    char text[32];
    std::snprintf(text, sizeof text, "%016x", number);
    return text;
}

void set_age(const std::string& path, std::time_t seconds) {
    const timespec then{::time(nullptr) - seconds, 0};
    const timespec times[] = {then, then};
    assert_int_equal(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

// A file of that size that was used `age` seconds ago.
void leave(const Place& place, const std::string& name, std::uint64_t bytes, std::time_t age) {
    place.temporary.file("cache/" + name);
    assert_int_equal(::truncate(cached(place, name).c_str(), static_cast<off_t>(bytes)), 0);
    set_age(cached(place, name), age);
}

bool exists(const Place& place, const std::string& name) {
    return fs::exists(cached(place, name));
}

void beyond_the_most_files_the_ones_used_longest_ago_go(void**) {
    Place place;
    for (unsigned number = 0; number < kMostManifests + 20; ++number)
        leave(place, name_of(number), 10, 1'000 + static_cast<std::time_t>(number));
    (void)place.scan();
    const auto left = std::distance(fs::directory_iterator(place.temporary.path("cache")), {});
    assert_int_equal(left, kMostManifests);
    assert_true(fs::exists(place.manifest()));
    assert_true(exists(place, name_of(kMostManifests - 2)));
    assert_false(exists(place, name_of(kMostManifests - 1)));
}

void beyond_the_most_bytes_the_ones_used_longest_ago_go(void**) {
    Place place;
    leave(place, name_of(1), kMostManifestBytes / 2, 300);
    leave(place, name_of(2), kMostManifestBytes / 4, 100);
    leave(place, name_of(3), kMostManifestBytes / 2, 200);
    (void)place.scan();
    assert_false(exists(place, name_of(1)));
    assert_true(exists(place, name_of(2)));
    // The new one has taken what was left.
    leave(place, name_of(4), kMostManifestBytes / 4, 400);
    place.temporary.file("data/b/9.jpg");
    (void)place.scan();
    assert_true(exists(place, name_of(2)));
    assert_true(exists(place, name_of(3)));
    assert_false(exists(place, name_of(4)));
}

void a_manifest_that_is_used_stays_though_it_is_old(void**) {
    Place place;
    (void)place.scan();
    set_age(place.manifest(), 100'000);
    assert_used(place.scan(), true);
    for (unsigned number = 0; number < kMostManifests; ++number)
        leave(place, name_of(number), 10, 1'000);
    Place other;
    auto source = FolderSource::scan(other.data(), {.manifest_folder = place.temporary.path("cache")});
    assert_true(source.has_value());
    assert_used(place.scan(), true);
}

void one_in_memory_that_is_used_keeps_its_file_young(void**) {
    Place place;
    FolderSource first = place.scan();
    set_age(place.manifest(), 100'000);
    auto second = FolderSource::scan(
        place.data(), {.manifest_folder = place.temporary.path("cache"), .known = first.manifest()});
    assert_true(second.has_value());
    struct stat status = {};
    assert_int_equal(::stat(place.manifest().c_str(), &status), 0);
    assert_true(status.st_mtime > ::time(nullptr) - 50'000);
}

void what_killed_writers_left_goes_too_but_not_what_is_being_written(void**) {
    Place place;
    leave(place, name_of(1) + ".new", kMostManifestBytes, 1'000);
    leave(place, name_of(2) + ".new", kMostManifestBytes, 1'000);
    UniqueFd writer(::open(cached(place, name_of(2) + ".new").c_str(), O_WRONLY | O_CLOEXEC));
    assert_int_equal(::flock(writer.get(), LOCK_EX), 0);
    (void)place.scan();
    assert_false(exists(place, name_of(1) + ".new"));
    assert_true(exists(place, name_of(2) + ".new"));
}

void what_is_no_manifest_is_left_alone(void**) {
    Place place;
    const std::vector<std::string> foreign = {"notes.txt", name_of(1) + ".old", "0123456789ABCDEF", "0123"};
    for (const auto& name : foreign)
        leave(place, name, kMostManifestBytes * 2, 1'000);
    place.temporary.folder("cache/" + name_of(3));
    fs::create_symlink("notes.txt", cached(place, name_of(4)));
    FolderSource source = place.scan();
    assert_true(source.manifest_use().kept);
    for (const auto& name : foreign)
        assert_true(exists(place, name));
    assert_true(exists(place, name_of(3)));
    assert_true(exists(place, name_of(4)));
}

}  // namespace
}  // namespace sl::testing

int main() {
    using namespace sl::testing;
    const CMUnitTest tests[] = {
        cmocka_unit_test(beyond_the_most_files_the_ones_used_longest_ago_go),
        cmocka_unit_test(beyond_the_most_bytes_the_ones_used_longest_ago_go),
        cmocka_unit_test(a_manifest_that_is_used_stays_though_it_is_old),
        cmocka_unit_test(one_in_memory_that_is_used_keeps_its_file_young),
        cmocka_unit_test(what_killed_writers_left_goes_too_but_not_what_is_being_written),
        cmocka_unit_test(what_is_no_manifest_is_left_alone),
    };
    return cmocka_run_group_tests_name("manifest_room", tests, nullptr, nullptr);
}
