// The folder of cost models stays small, and nobody's models make room for another's who has more.
#include "daemon/predict/cost_room.h"

#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "daemon/predict/cost_file.h"
#include "tests/cmocka_cpp.h"

namespace sl {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kAlice = 61'001 + 1;
constexpr std::uint64_t kBob = 61'002 + 1;
constexpr std::uint64_t kMiB = 1 << 20;

class Folder {
  public:
    Folder() {
        char name[] = "/tmp/sl-costs-XXXXXX";
        path_ = ::mkdtemp(name);
    }
    ~Folder() { fs::remove_all(path_); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    // A file of so many bytes (a sparse one) that was written so long ago.
    void write(const CostKey& key, std::chrono::minutes ago, std::uint64_t bytes = 100) const {
        write(cost_path(path_, key), ago, bytes);
    }
    void leave_behind(const std::string& name, std::chrono::minutes ago) const {
        write(path_ + "/" + name, ago, 100);
    }
    [[nodiscard]] bool has(const CostKey& key) const { return fs::exists(cost_path(path_, key)); }
    [[nodiscard]] bool has(const std::string& name) const { return fs::exists(path_ + "/" + name); }
    [[nodiscard]] std::size_t files() const {
        return static_cast<std::size_t>(std::distance(fs::directory_iterator(path_), {}));
    }
    void make_room() const { make_cost_room(path_); }

  private:
    static void write(const std::string& path, std::chrono::minutes ago, std::uint64_t bytes) {
        std::ofstream(path) << "x";
        fs::resize_file(path, bytes);
        fs::last_write_time(path, fs::file_time_type::clock::now() - ago);
    }

    std::string path_;
};

CostKey key_of(std::uint64_t learner, std::uint64_t dataset) {
    return {dataset, 1, 10, learner};
}

void beyond_a_users_bounds_its_oldest_go(void**) {
    for (const std::uint64_t learner : {CostKey::kOwn, kAlice}) {
        const Folder folder;
        for (std::uint64_t i = 0; i < kRoomOfOneUser.files + 5; ++i)
            folder.write(key_of(learner, i), std::chrono::minutes(1000 - i));
        folder.write(key_of(kBob, 0), std::chrono::hours(1000));
        folder.make_room();
        assert_int_equal(folder.files(), kRoomOfOneUser.files + 1);
        for (std::uint64_t i = 0; i < kRoomOfOneUser.files + 5; ++i)
            assert_int_equal(folder.has(key_of(learner, i)), i >= 5);
        assert_true(folder.has(key_of(kBob, 0)));
    }
}

void bytes_count_as_files_do(void**) {
    const Folder folder;
    for (std::uint64_t i = 0; i < 6; ++i)
        folder.write(key_of(kAlice, i), std::chrono::minutes(100 - i), 256 * kMiB);
    folder.make_room();
    assert_int_equal(folder.files(), 4);
    assert_false(folder.has(key_of(kAlice, 1)));
    assert_true(folder.has(key_of(kAlice, 2)));
}

void beyond_the_folders_bounds_who_has_most_loses_the_oldest(void**) {
    const Folder folder;
    folder.write(key_of(CostKey::kOwn, 0), std::chrono::hours(2000));
    folder.write(key_of(kBob, 0), std::chrono::hours(1000));
    for (std::uint64_t learner = 1; learner <= 4; ++learner) {
        for (std::uint64_t i = 0; i < kRoomOfOneUser.files; ++i)
            folder.write(key_of(learner, i), std::chrono::minutes(500 - i));
    }
    folder.make_room();
    assert_int_equal(folder.files(), kRoomOfAll.files);
    assert_true(folder.has(key_of(CostKey::kOwn, 0)));
    assert_true(folder.has(key_of(kBob, 0)));

    for (std::uint64_t i = 0; i < 3; ++i) {
        for (std::uint64_t learner = 1; learner <= 3; ++learner)
            folder.write(key_of(learner, 100 + i), std::chrono::minutes(1), 256 * kMiB);
    }
    folder.make_room();
    assert_true(folder.has(key_of(CostKey::kOwn, 0)));
    assert_true(folder.has(key_of(kBob, 0)));
    for (std::uint64_t learner = 1; learner <= 3; ++learner)
        assert_true(folder.has(key_of(learner, 102)));
}

void what_a_killed_writer_left_behind_goes_and_what_one_writes_stays(void**) {
    const Folder folder;
    folder.leave_behind("u61001-0-0.99.new", std::chrono::minutes(60));
    folder.leave_behind("0-0.98.new", std::chrono::minutes(60));
    folder.leave_behind("0-0.97.new", std::chrono::minutes(1));
    folder.make_room();
    assert_int_equal(folder.files(), 1);
    assert_true(folder.has("0-0.97.new"));
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(beyond_a_users_bounds_its_oldest_go),
        cmocka_unit_test(bytes_count_as_files_do),
        cmocka_unit_test(beyond_the_folders_bounds_who_has_most_loses_the_oldest),
        cmocka_unit_test(what_a_killed_writer_left_behind_goes_and_what_one_writes_stays),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
