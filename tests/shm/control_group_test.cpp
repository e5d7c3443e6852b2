// What limits a process: its own control group's numbers and those above it, the least of them.
#include "shm/control_group.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "tests/cmocka_cpp.h"

namespace sl {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

// A tree of groups in a temporary folder, and what the kernel would say of the process in it.
class Tree {
  public:
    explicit Tree(const std::string& own) {
        std::string pattern = (fs::temp_directory_path() / "sl-groups-XXXXXX").string();
        folder_ = ::mkdtemp(pattern.data());
        fs::create_directories(folder_ / "root" / own);
        write("self", "4:memory:/elsewhere\n0::/" + own + "\n");
        groups = {(folder_ / "self").string(), (folder_ / "root").string()};
    }
    ~Tree() { fs::remove_all(folder_); }
    Tree(const Tree&) = delete;
    Tree& operator=(const Tree&) = delete;

    void write(const std::string& name, const std::string& text) const {
        std::ofstream(folder_ / name) << text;
    }
    void memory(const std::string& group, const std::string& most, std::uint64_t used,
                std::uint64_t pages) const {
        const std::string at = "root/" + group + "/memory.";
        write(at + "max", most + "\n");
        write(at + "current", std::to_string(used) + "\n");
        write(at + "stat", "anon 7\ninactive_file " + std::to_string(pages) + "\nactive_file 5\n");
    }

    ControlGroups groups;

  private:
    fs::path folder_;
};

void without_groups_nothing_is_limited(void**) {
    const ControlGroups nowhere{"/nowhere/self", "/nowhere/root"};
    assert_true(nowhere.memory_left() == kNoLimit);
    assert_true(std::isinf(nowhere.cores()));
}

void a_service_has_what_its_own_limit_leaves(void**) {
    const Tree tree("system.slice/speedyloaderd.service");
    tree.memory("system.slice/speedyloaderd.service", "1000", 300, 95);
    tree.memory("system.slice", "max", 5000, 0);
    assert_int_equal(tree.groups.memory_left(), 1000 - (300 - 100));
    tree.write("root/system.slice/speedyloaderd.service/cpu.max", "150000 100000\n");
    assert_true(tree.groups.cores() == 1.5);
}

void a_limit_of_a_group_above_holds_too(void**) {
    const Tree tree("system.slice/speedyloaderd.service");
    tree.memory("system.slice/speedyloaderd.service", "1000", 300, 95);
    tree.memory("system.slice", "900", 850, 15);
    assert_int_equal(tree.groups.memory_left(), 900 - (850 - 20));
    tree.write("root/system.slice/speedyloaderd.service/cpu.max", "max 100000\n");
    tree.write("root/system.slice/cpu.max", "400000 100000\n");
    assert_true(tree.groups.cores() == 4);
}

void in_a_container_the_root_is_its_group(void**) {
    const Tree tree("");
    tree.memory("", "1000", 1200, 0);
    assert_int_equal(tree.groups.memory_left(), 0);
    tree.write("root/cpu.max", "50000 100000\n");
    assert_true(tree.groups.cores() == 0.5);
}

void what_cannot_be_read_is_no_limit(void**) {
    const Tree tree("a");
    tree.write("root/a/memory.max", "much\n");
    tree.write("root/a/memory.current", "10\n");
    tree.write("root/a/cpu.max", "100000 0\n");
    assert_true(tree.groups.memory_left() == kNoLimit);
    assert_true(std::isinf(tree.groups.cores()));
}

}  // namespace
}  // namespace sl

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(sl::without_groups_nothing_is_limited),
        cmocka_unit_test(sl::a_service_has_what_its_own_limit_leaves),
        cmocka_unit_test(sl::a_limit_of_a_group_above_holds_too),
        cmocka_unit_test(sl::in_a_container_the_root_is_its_group),
        cmocka_unit_test(sl::what_cannot_be_read_is_no_limit),
    };
    return cmocka_run_group_tests_name("control_group", tests, nullptr, nullptr);
}
