// Kept scans (LDR-16): a second one believes the first as long as nothing has changed, and notices whatever
// has. Folders and files are real.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>
#include <functional>

#include "tests/reader/manifest_place.h"

namespace sl::testing {
namespace {

// Scans, changes something, and expects a new scan that finds the truth and is believed from then on.
void assert_noticed(const Place& place, const std::function<void()>& change) {
    (void)place.scan();
    assert_used(place.scan(), true);
    change();
    FolderSource anew = place.scan();
    assert_used(anew, false);
    assert_string_equal(all_of(anew).c_str(), place.truth().c_str());
    assert_used(place.scan(), true);
}

void the_second_scan_uses_the_first_ones_manifest_and_says_the_same(void**) {
    Place place;
    const std::string truth = place.truth();
    FolderSource first = place.scan();
    assert_used(first, false);
    assert_true(first.manifest_use().kept);
    FolderSource second = place.scan();
    assert_used(second, true);
    assert_string_equal(all_of(first).c_str(), truth.c_str());
    assert_string_equal(all_of(second).c_str(), truth.c_str());
    assert_int_equal(second.size(), 7);
    struct stat status = {};
    assert_int_equal(::stat(place.manifest().c_str(), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
}

// Saved positions depend on it.
void the_fingerprint_is_the_one_of_the_first_release(void**) {
    TempFolder folder;
    for (const char* name : {"a/1.jpg", "a/sub/2.jpg", "b/3.png"})
        folder.file(name);
    auto source = FolderSource::scan(folder.root());
    assert_true(source.has_value());
    assert_true(source->fingerprint() == 0x90bf89efdb4602fcU);
}

void a_file_added_removed_or_renamed_is_noticed(void**) {
    Place place;
    assert_noticed(place, [&] { place.temporary.file("data/b/9.jpg"); });
    assert_noticed(place, [&] { fs::remove(place.data("a/1.jpg")); });
    assert_noticed(place, [&] { fs::rename(place.data("b/4.png"), place.data("b/renamed.png")); });
    assert_noticed(place, [&] { fs::rename(place.data("b/5.jpg"), place.data("a/deep/5.jpg")); });
}

void a_directory_made_renamed_removed_or_closed_is_noticed(void**) {
    Place place;
    assert_noticed(place, [&] { place.temporary.folder("data/aa"); });  // moves labels
    assert_noticed(place, [&] { fs::rename(place.data("a/deep"), place.data("a/deeper")); });
    assert_noticed(place, [&] { fs::remove(place.data("empty")); });
    assert_noticed(place, [&] { ::chmod(place.data("b").c_str(), 0700); });
}

void a_directory_whose_times_were_set_back_is_noticed(void**) {
    Place place;
    assert_noticed(place, [&] {
        struct stat status = {};
        assert_int_equal(::stat(place.data("b").c_str(), &status), 0);
        place.temporary.file("data/b/9.jpg");
        const timespec times[] = {status.st_atim, status.st_mtim};
        assert_int_equal(::utimensat(AT_FDCWD, place.data("b").c_str(), times, 0), 0);
    });
}

void another_folder_in_the_same_place_is_noticed(void**) {
    Place place;
    assert_noticed(place, [&] {
        fs::rename(place.data(), place.temporary.path("old"));
        fs::copy(place.temporary.path("old"), place.data(),
                 fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    });
}

// Nothing in the dataset's own directories changes in any of these.
void what_links_lead_to_is_looked_at_again(void**) {
    Place place;
    assert_noticed(place, [&] { place.temporary.file("away/10.jpg"); });
    assert_noticed(place, [&] { fs::remove(place.temporary.path("away/6.jpg")); });
    assert_noticed(place, [&] { fs::create_directory(place.temporary.path("away/6.jpg")); });
    assert_noticed(place, [&] { fs::rename(place.temporary.path("away"), place.temporary.path("gone")); });
}

// The samples stay the same and nothing needs a second scan when only contents change.
void a_change_of_contents_costs_no_scan(void**) {
    Place place;
    (void)place.scan();
    write(place.data("a/1.jpg"), {'x', 'y'});
    assert_used(place.scan(), true);
}

void times_are_believed_only_when_the_clock_has_moved_on(void**) {
    constexpr std::int64_t kNow = 1'700'000'000'500'000'000;
    constexpr std::int64_t kMs = 1'000'000;
    constexpr std::int64_t kWhole = 1'700'000'000'000'000'000;  // a whole second, half a second ago
    assert_true(may_change_unseen(kNow - 5 * kMs, kNow - 5 * kMs, kNow));
    assert_true(may_change_unseen(kNow - 500 * kMs + 1, kNow - 5 * kMs, kNow));
    assert_false(may_change_unseen(kNow - 21 * kMs, kNow - 21 * kMs, kNow));
    // A file system that counts seconds.
    assert_true(may_change_unseen(kWhole, kWhole, kNow));
    assert_true(may_change_unseen(kWhole - 1000 * kMs, kWhole - 1000 * kMs, kNow));
    assert_false(may_change_unseen(kWhole - 3000 * kMs, kWhole - 3000 * kMs, kNow));
    // mtime set to a whole second by an archiver: ctime tells how fine the clock is.
    assert_false(may_change_unseen(kWhole, kNow - 100 * kMs, kNow));
    // Not in the past, or none at all.
    assert_true(may_change_unseen(kNow + 1, kNow - 100 * kMs, kNow));
    assert_true(may_change_unseen(0, 0, kNow));
}

// The real thing: a directory that claims to be changed later than now is listed every time.
void a_directory_that_may_change_unseen_is_scanned_each_time(void**) {
    Place place;
    const timespec later[] = {{0, UTIME_OMIT}, {::time(nullptr) + 3600, 0}};
    assert_int_equal(::utimensat(AT_FDCWD, place.data("b").c_str(), later, 0), 0);
    for (int i = 0; i < 3; ++i) {
        FolderSource source = place.scan();
        assert_used(source, false);
        assert_false(source.manifest_use().kept);
    }
}

void what_is_in_memory_is_used_while_it_holds(void**) {
    Place place;
    auto first = FolderSource::scan(place.data());
    assert_true(first.has_value());
    auto second = FolderSource::scan(place.data(), {.known = first->manifest()});
    assert_true(second.has_value());
    assert_used(*second, true);
    assert_ptr_equal(second->manifest().get(), first->manifest().get());
    place.temporary.file("data/b/9.jpg");
    auto third = FolderSource::scan(place.data(), {.known = first->manifest()});
    assert_true(third.has_value());
    assert_used(*third, false);
    assert_string_equal(all_of(*third).c_str(), place.truth().c_str());
}

// In a child without root's rights, since root passes every check.
void a_closed_directory_that_opens_is_noticed(void**) {
    Place place;
    ::chmod(place.data("b").c_str(), 0000);
    const std::string cache = place.temporary.folder("cache");
    ::chmod(cache.c_str(), 0777);
    auto scan_as_nobody = [&](bool used, std::uint64_t samples) {
        pid_t child = ::fork();
        if (child == 0) {
            if (::geteuid() == 0 && ::setresuid(65'534, 65'534, 65'534) != 0) ::_exit(1);
            auto source = FolderSource::scan(place.data(), {.manifest_folder = cache});
            if (!source || source->size() != samples) ::_exit(2);
            ::_exit(source->manifest_use().used == used && source->manifest_use().kept ? 0 : 3);
        }
        int status = 0;
        assert_int_equal(::waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    };
    scan_as_nobody(false, 5);
    scan_as_nobody(true, 5);
    ::chmod(place.data("b").c_str(), 0755);
    scan_as_nobody(false, 7);
}

}  // namespace
}  // namespace sl::testing

int main() {
    using namespace sl::testing;
    const CMUnitTest tests[] = {
        cmocka_unit_test(the_second_scan_uses_the_first_ones_manifest_and_says_the_same),
        cmocka_unit_test(the_fingerprint_is_the_one_of_the_first_release),
        cmocka_unit_test(a_file_added_removed_or_renamed_is_noticed),
        cmocka_unit_test(a_directory_made_renamed_removed_or_closed_is_noticed),
        cmocka_unit_test(a_directory_whose_times_were_set_back_is_noticed),
        cmocka_unit_test(another_folder_in_the_same_place_is_noticed),
        cmocka_unit_test(what_links_lead_to_is_looked_at_again),
        cmocka_unit_test(a_change_of_contents_costs_no_scan),
        cmocka_unit_test(times_are_believed_only_when_the_clock_has_moved_on),
        cmocka_unit_test(a_directory_that_may_change_unseen_is_scanned_each_time),
        cmocka_unit_test(what_is_in_memory_is_used_while_it_holds),
        cmocka_unit_test(a_closed_directory_that_opens_is_noticed),
    };
    return cmocka_run_group_tests_name("manifest", tests, nullptr, nullptr);
}
