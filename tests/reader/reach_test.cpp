// What a user may reach beneath a root: the rule of the mode bits, and no way out whatever links say.
#include "io/reach.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <utility>

#include "tests/reader/fixture.h"

namespace sl {
namespace {

namespace fs = std::filesystem;
using testing::TempFolder;

constexpr uid_t kStranger = 4'000'001;
constexpr gid_t kTheirs = 4'000'002;

User stranger(std::vector<gid_t> groups = {kTheirs}) {
    return {kStranger, std::move(groups)};
}

bool allowed(mode_t mode, uid_t owner, gid_t group, Permission wanted, const User& user) {
    struct stat status = {};
    status.st_mode = S_IFDIR | mode;
    status.st_uid = owner;
    status.st_gid = group;
    return may(user, wanted, status);
}

void the_first_of_owner_group_and_others_that_fits_decides(void**) {
    const User user{7, {100, 200}};
    using enum Permission;
    struct {
        mode_t mode;
        uid_t owner;
        gid_t group;
        bool read, search;
    } const cases[] = {
        {0400, 7, 1, true, false},   {0100, 7, 1, false, true},    {0077, 7, 100, false, false},
        {0077, 7, 1, false, false},  {0040, 8, 100, true, false},  {0040, 8, 200, true, false},
        {0010, 8, 200, false, true}, {0707, 8, 100, false, false}, {0070, 8, 300, false, false},
        {0004, 8, 300, true, false}, {0001, 8, 300, false, true},  {0770, 8, 300, false, false},
        {0755, 0, 0, true, true},    {0000, 7, 100, false, false},
    };
    for (const auto& each : cases) {
        const bool read = allowed(each.mode, each.owner, each.group, kRead, user);
        const bool search = allowed(each.mode, each.owner, each.group, kSearch, user);
        if (read != each.read || search != each.search)
            fail_msg("mode %o of %u:%u: read %d, search %d", each.mode, each.owner, each.group, read, search);
    }
}

void user_0_has_no_more_than_its_bits(void**) {
    assert_false(allowed(0700, 7, 7, Permission::kRead, {0, {0}}));
    assert_true(allowed(0704, 7, 7, Permission::kRead, {0, {0}}));
}

// data/ is the root; beside it lies a secret.
struct Tree {
    Tree() {
        for (const char* name : {"data/a/1.jpg", "data/a/deep/2.jpg", "data/closed/3.jpg", "secret/4.jpg"})
            temporary.file(name, {std::byte{1}});
        ::chmod(temporary.root().c_str(), 0755);
    }
    [[nodiscard]] std::string at(const std::string& name) const { return temporary.path("data/" + name); }
    void link(const std::string& target, const std::string& name) const {
        fs::create_symlink(target, at(name));
    }
    void set_mode(const std::string& name, mode_t mode) const {
        assert_int_equal(::chmod(at(name).c_str(), mode), 0);
    }
    [[nodiscard]] Reach reach(const User& user = stranger()) const {
        auto root = Root::open(temporary.path("data"));
        assert_true(root.has_value());
        return {*root, user};
    }
    // 0, or the errno of opening it.
    [[nodiscard]] int open(const std::string& path, const User& user = stranger()) const {
        const int fd = reach(user).open(path.c_str(), O_RDONLY | O_CLOEXEC);
        if (fd >= 0) ::close(fd);
        return fd >= 0 ? 0 : -fd;
    }
    TempFolder temporary;
};

void files_and_folders_beneath_the_root_open(void**) {
    const Tree tree;
    for (const char* name : {"a/1.jpg", "a/deep/2.jpg", "a", "", ".", "a//deep/./2.jpg", "a/deep/../1.jpg"})
        if (const int error = tree.open(tree.at(name))) fail_msg("\"%s\": %d", name, error);
    assert_int_equal(tree.open(tree.at("a/none.jpg")), ENOENT);
    assert_int_equal(tree.open(tree.at("a/1.jpg/x")), ENOTDIR);
}

void no_name_leads_out_of_the_root(void**) {
    const Tree tree;
    for (const char* name : {"..", "../secret/4.jpg", "a/../../secret/4.jpg", "a/deep/../../../data/a/1.jpg"})
        assert_int_equal(tree.open(tree.at(name)), EXDEV);
    assert_int_equal(tree.open(tree.temporary.path("secret/4.jpg")), EXDEV);
    assert_int_equal(tree.open(tree.temporary.path("datas")), EXDEV);
    assert_int_equal(tree.open("relative"), EXDEV);
}

void links_are_followed_within_the_root_and_not_out_of_it(void**) {
    const Tree tree;
    tree.link("a", "inside");
    tree.link("../a/1.jpg", "a/also");
    tree.link("../a/deep/../1.jpg", "a/winding");
    tree.link("../secret", "out");
    tree.link("../../secret/4.jpg", "a/out.jpg");
    tree.link(tree.at("a"), "absolute");
    tree.link("/proc/self/root", "magic");
    tree.link("round", "round");
    tree.link("nowhere", "broken");
    for (const char* name : {"inside/1.jpg", "inside", "a/winding", "inside/also"}) {
        if (const int error = tree.open(tree.at(name))) fail_msg("\"%s\": %d", name, error);
    }
    for (const char* name : {"out", "out/4.jpg", "a/out.jpg", "absolute/1.jpg", "magic", "magic/etc/passwd"})
        assert_int_equal(tree.open(tree.at(name)), EXDEV);
    assert_int_equal(tree.open(tree.at("round")), ELOOP);
    assert_int_equal(tree.open(tree.at("broken")), ENOENT);
}

void every_folder_on_the_way_must_be_searchable_and_what_is_opened_readable(void**) {
    const Tree tree;
    tree.link("../closed/3.jpg", "a/by_link.jpg");
    tree.set_mode("closed", 0700);
    assert_int_equal(tree.open(tree.at("closed/3.jpg")), EPERM);
    assert_int_equal(tree.open(tree.at("closed/none.jpg")), EPERM);  // whether it is there or not
    assert_int_equal(tree.open(tree.at("a/by_link.jpg")), EPERM);
    tree.set_mode("closed", 0711);
    assert_int_equal(tree.open(tree.at("closed")), EPERM);
    assert_int_equal(tree.open(tree.at("closed/3.jpg")), 0);
    tree.set_mode("a/1.jpg", 0640);
    assert_int_equal(tree.open(tree.at("a/1.jpg")), EPERM);
    assert_int_equal(tree.open(tree.at("a/1.jpg"), stranger({kTheirs, ::getegid()})), 0);
    assert_int_equal(tree.open(tree.at("a/1.jpg"), {::geteuid(), {}}), 0);
    tree.set_mode("", 0750);  // the root itself
    assert_int_equal(tree.open(tree.at("a/deep/2.jpg")), EPERM);
    tree.set_mode("", 0755);
}

void a_root_is_its_descriptor_whatever_is_put_in_its_place(void**) {
    const Tree tree;
    const Reach reach = tree.reach();
    fs::rename(tree.temporary.path("data"), tree.temporary.path("moved"));
    fs::create_directory_symlink("secret", tree.temporary.path("data"));
    const int fd = reach.open(tree.at("a/1.jpg").c_str(), O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    ::close(fd);
    assert_int_equal(reach.open(tree.at("4.jpg").c_str(), O_RDONLY | O_CLOEXEC), -ENOENT);
}

void who_sees_the_same_has_the_same_identity_and_nobody_else(void**) {
    const Tree tree;
    const std::string one = tree.reach(stranger({5, 3, 5})).identity();
    assert_true(one == tree.reach(stranger({3, 5})).identity());
    assert_false(one == tree.reach(stranger({3})).identity());
    assert_false(one == tree.reach({kStranger + 1, {3, 5}}).identity());
}

void a_root_is_an_absolute_folder(void**) {
    const Tree tree;
    for (const std::string& path : {std::string("data"), tree.at("a/1.jpg"), tree.at("none")}) {
        auto root = Root::open(path);
        assert_false(root.has_value());
        assert_true(root.error().message.find(path) != std::string::npos);
    }
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(the_first_of_owner_group_and_others_that_fits_decides),
        cmocka_unit_test(user_0_has_no_more_than_its_bits),
        cmocka_unit_test(files_and_folders_beneath_the_root_open),
        cmocka_unit_test(no_name_leads_out_of_the_root),
        cmocka_unit_test(links_are_followed_within_the_root_and_not_out_of_it),
        cmocka_unit_test(every_folder_on_the_way_must_be_searchable_and_what_is_opened_readable),
        cmocka_unit_test(a_root_is_its_descriptor_whatever_is_put_in_its_place),
        cmocka_unit_test(who_sees_the_same_has_the_same_identity_and_nobody_else),
        cmocka_unit_test(a_root_is_an_absolute_folder),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
