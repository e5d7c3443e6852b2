// Kept scans (LDR-16): a second one believes the first as long as nothing has changed, notices whatever has,
// and believes nothing else. Folders and files are real; so are the writers that are killed.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "io/folder_source.h"
#include "io/manifest_file.h"
#include "tests/reader/fixture.h"

namespace sl::testing {
namespace {

namespace fs = std::filesystem;

// All that a source says, as text.
std::string all_of(const FolderSource& source) {
    std::string text = std::to_string(source.fingerprint()) + " " + source.report().summary();
    for (const auto& name : source.classes())
        text += " [" + name + "]";
    std::string path;
    for (std::uint64_t id = 0; id < source.size(); ++id) {
        source.path(id, path);
        text.append(" ").append(std::to_string(source.label(id))).append(":").append(path);
    }
    return text;
}

// A dataset of seven samples, and a cache folder beside it.
struct Place {
    Place() {
        for (const char* name : {"data/a/1.jpg", "data/a/2.jpg", "data/a/deep/3.jpg", "data/b/4.png",
                                 "data/b/5.jpg", "data/a/notes.txt", "data/a/.hidden", "away/6.jpg"}) {
            temporary.file(name);
        }
        temporary.folder("data/empty");
        fs::create_directory_symlink("../away", temporary.path("data/c"));
        fs::create_symlink("../../away/6.jpg", temporary.path("data/a/7.jpg"));
        fs::create_symlink("nowhere", temporary.path("data/a/8.jpg"));
    }
    [[nodiscard]] std::string data(const std::string& name = "") const {
        return temporary.path("data") + (name.empty() ? "" : "/" + name);
    }
    [[nodiscard]] std::string manifest() const { return manifest_path(temporary.path("cache"), data()); }
    [[nodiscard]] FolderSource scan() const {
        auto source = FolderSource::scan(data(), {.manifest_folder = temporary.path("cache")});
        if (!source) print_error("%s\n", source.error().message.c_str());
        assert_true(source.has_value());
        return std::move(*source);
    }
    // What a scan without any manifest finds.
    [[nodiscard]] std::string truth() const {
        auto source = FolderSource::scan(data());
        assert_true(source.has_value());
        return all_of(*source);
    }
    TempFolder temporary;
};

void assert_used(const FolderSource& source, bool used) {
    const ManifestUse& use = source.manifest_use();
    if (use.used != used) print_error("used %d, \"%s\"\n", use.used, use.note.c_str());
    assert_int_equal(use.used, used);
}

std::vector<char> bytes_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::string& path, const std::vector<char>& bytes) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    assert_true(file.good());
}

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

void assert_scanned_anew(const Place& place, const std::string& truth) {
    FolderSource source = place.scan();
    assert_used(source, false);
    assert_true(source.manifest_use().kept);
    assert_string_equal(all_of(source).c_str(), truth.c_str());
}

void a_damaged_manifest_is_never_believed(void**) {
    Place place;
    (void)place.scan();
    const std::string truth = place.truth();
    const std::vector<char> good = bytes_of(place.manifest());
    for (std::size_t at = 0; at < good.size(); at += at < 200 ? 1 : 13) {
        std::vector<char> bad = good;
        bad[at] = static_cast<char>(bad[at] ^ 0x10);
        write(place.manifest(), bad);
        assert_scanned_anew(place, truth);
    }
    for (std::size_t length = 0; length < good.size(); length += 29) {
        write(place.manifest(), {good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length)});
        assert_scanned_anew(place, truth);
    }
    std::vector<char> longer = good;
    longer.push_back('\0');
    write(place.manifest(), longer);
    assert_scanned_anew(place, truth);
    assert_used(place.scan(), true);
}

void a_manifest_that_lies_with_a_right_checksum_leads_nowhere(void**) {
    Place place;
    (void)place.scan();
    const std::string truth = place.truth();
    const std::vector<char> good = bytes_of(place.manifest());
    const std::size_t counts = offsetof(ManifestHeader, folders);
    for (std::size_t at = counts; at + 8 <= good.size(); at += 8) {
        for (std::uint64_t value : {UINT64_MAX, std::uint64_t{1} << 61, std::uint64_t{good.size()}}) {
            std::vector<char> bad = good;
            std::memcpy(bad.data() + at, &value, sizeof value);
            const std::uint64_t checksum = manifest_checksum(std::as_bytes(std::span(bad)));
            std::memcpy(bad.data() + offsetof(ManifestHeader, checksum), &checksum, sizeof checksum);
            write(place.manifest(), bad);
            auto source =
                FolderSource::scan(place.data(), {.manifest_folder = place.temporary.path("cache")});
            assert_true(source.has_value());
            // Numbers that are no offsets may say what they like; walking over all of it stays inside.
            if (!source->manifest_use().used) assert_string_equal(all_of(*source).c_str(), truth.c_str());
            assert_true(all_of(*source).size() > 100);
        }
    }
}

void a_foreign_manifest_is_never_believed(void**) {
    Place place;
    Place other;
    (void)place.scan();
    (void)other.scan();
    const std::string truth = place.truth();
    fs::copy_file(other.manifest(), place.manifest(), fs::copy_options::overwrite_existing);
    assert_scanned_anew(place, truth);

    ::chmod(place.manifest().c_str(), 0622);
    assert_scanned_anew(place, truth);

    fs::rename(place.manifest(), place.temporary.path("moved"));
    fs::create_symlink(place.temporary.path("moved"), place.manifest());
    assert_scanned_anew(place, truth);

    fs::remove(place.manifest());
    assert_int_equal(::mkfifo(place.manifest().c_str(), 0600), 0);
    assert_scanned_anew(place, truth);
}

void a_manifest_that_changes_after_it_was_read_changes_nothing(void**) {
    Place place;
    (void)place.scan();
    FolderSource source = place.scan();
    assert_used(source, true);
    const std::string before = all_of(source);
    std::vector<char> bytes = bytes_of(place.manifest());
    std::fill(bytes.begin(), bytes.end(), 'x');
    write(place.manifest(), bytes);
    assert_int_equal(::truncate(place.manifest().c_str(), 0), 0);
    assert_string_equal(all_of(source).c_str(), before.c_str());
}

void a_cache_folder_that_cannot_be_made_costs_only_the_second_scan(void**) {
    Place place;
    const std::string cache = place.temporary.file("file") + "/cache";
    for (int i = 0; i < 2; ++i) {
        auto source = FolderSource::scan(place.data(), {.manifest_folder = cache});
        assert_true(source.has_value());
        assert_used(*source, false);
        assert_false(source->manifest_use().kept);
        assert_true(source->manifest_use().note.find(cache) != std::string::npos);
        assert_string_equal(all_of(*source).c_str(), place.truth().c_str());
    }
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

void a_killed_writer_leaves_one_whole_manifest_and_nothing_in_the_way(void**) {
    Place place;
    FolderSource source = place.scan();
    const std::string truth = place.truth();
    for (int round = 0; round < 50; ++round) {
        int ready[2];
        assert_int_equal(::pipe(ready), 0);
        pid_t child = ::fork();
        if (child == 0) {
            for (char first = 1;; first = 0) {
                (void)save_manifest(place.manifest(), *source.manifest());
                if (first != 0 && ::write(ready[1], &first, 1) != 1) ::_exit(1);
            }
        }
        char byte = 0;
        assert_int_equal(::read(ready[0], &byte, 1), 1);
        ::usleep(static_cast<useconds_t>(round * 37 % 500));  // another instant in each round
        ::kill(child, SIGKILL);
        assert_int_equal(::waitpid(child, nullptr, 0), child);
        ::close(ready[0]);
        ::close(ready[1]);
        FolderSource now = place.scan();
        assert_used(now, true);
        assert_string_equal(all_of(now).c_str(), truth.c_str());
        const auto files = std::distance(fs::directory_iterator(place.temporary.path("cache")), {});
        assert_true(files <= 2);
    }
    assert_true(save_manifest(place.manifest(), *source.manifest()).has_value());
    assert_int_equal(std::distance(fs::directory_iterator(place.temporary.path("cache")), {}), 1);
}

void writers_and_readers_at_once_only_ever_see_whole_manifests(void**) {
    Place place;
    FolderSource source = place.scan();
    std::vector<pid_t> children;
    for (int writer = 0; writer < 3; ++writer) {
        pid_t child = ::fork();
        if (child == 0) {
            for (int i = 0; i < 200; ++i)
                (void)save_manifest(place.manifest(), *source.manifest());
            ::_exit(0);
        }
        children.push_back(child);
    }
    for (int i = 0; i < 200; ++i)
        assert_true(load_manifest(place.manifest(), place.data()).has_value());
    for (pid_t child : children) {
        int status = -1;
        assert_int_equal(::waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}

void the_cache_folder_is_the_users(void**) {
    const char* cache = std::getenv("XDG_CACHE_HOME");
    const std::string kept = cache == nullptr ? "" : cache;
    ::setenv("XDG_CACHE_HOME", "/x/cache", 1);
    assert_string_equal(user_manifest_folder().c_str(), "/x/cache/speedyloader/manifests");
    ::setenv("XDG_CACHE_HOME", "not/absolute", 1);
    ::setenv("HOME", "/home/u", 1);
    assert_string_equal(user_manifest_folder().c_str(), "/home/u/.cache/speedyloader/manifests");
    ::unsetenv("HOME");
    assert_string_equal(user_manifest_folder().c_str(), "");
    cache == nullptr ? ::unsetenv("XDG_CACHE_HOME") : ::setenv("XDG_CACHE_HOME", kept.c_str(), 1);
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
        cmocka_unit_test(a_damaged_manifest_is_never_believed),
        cmocka_unit_test(a_manifest_that_lies_with_a_right_checksum_leads_nowhere),
        cmocka_unit_test(a_foreign_manifest_is_never_believed),
        cmocka_unit_test(a_manifest_that_changes_after_it_was_read_changes_nothing),
        cmocka_unit_test(a_cache_folder_that_cannot_be_made_costs_only_the_second_scan),
        cmocka_unit_test(times_are_believed_only_when_the_clock_has_moved_on),
        cmocka_unit_test(a_directory_that_may_change_unseen_is_scanned_each_time),
        cmocka_unit_test(what_is_in_memory_is_used_while_it_holds),
        cmocka_unit_test(a_closed_directory_that_opens_is_noticed),
        cmocka_unit_test(a_killed_writer_leaves_one_whole_manifest_and_nothing_in_the_way),
        cmocka_unit_test(writers_and_readers_at_once_only_ever_see_whole_manifests),
        cmocka_unit_test(the_cache_folder_is_the_users),
    };
    return cmocka_run_group_tests_name("manifest", tests, nullptr, nullptr);
}
