// Manifests as files: nothing is believed but a whole one of this folder and this user, and writers may be
// killed. Files are real; so are the writers.
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <span>

#include "tests/reader/manifest_place.h"

namespace sl::testing {
namespace {

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
        cmocka_unit_test(a_damaged_manifest_is_never_believed),
        cmocka_unit_test(a_manifest_that_lies_with_a_right_checksum_leads_nowhere),
        cmocka_unit_test(a_foreign_manifest_is_never_believed),
        cmocka_unit_test(a_manifest_that_changes_after_it_was_read_changes_nothing),
        cmocka_unit_test(a_cache_folder_that_cannot_be_made_costs_only_the_second_scan),
        cmocka_unit_test(a_killed_writer_leaves_one_whole_manifest_and_nothing_in_the_way),
        cmocka_unit_test(writers_and_readers_at_once_only_ever_see_whole_manifests),
        cmocka_unit_test(the_cache_folder_is_the_users),
    };
    return cmocka_run_group_tests_name("manifest_file", tests, nullptr, nullptr);
}
