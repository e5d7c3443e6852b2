// The image_folder dataset: which files are samples, in which order, with which labels, and what the report
// says of the rest (LDR-15, and the empty-file case of the image chapter). Trees are real folders.
#include "io/folder_source.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string_view>

#include "tests/reader/fixture.h"

namespace sl::testing {
namespace {

// "label:path label:path ...", in sample order.
std::string samples_of(const FolderSource& source) {
    std::string text;
    std::string path;
    for (std::uint64_t id = 0; id < source.size(); ++id) {
        source.relative_path(id, path);
        if (id > 0) text += ' ';
        text.append(std::to_string(source.label(id))).append(":").append(path);
    }
    return text;
}

std::string joined(const std::vector<std::string>& names) {
    std::string text;
    for (const auto& name : names)
        text += "[" + name + "]";
    return text;
}

FolderSource scanned(const std::string& root) {
    auto source = FolderSource::scan(root);
    if (!source) print_error("%s\n", source.error().message.c_str());
    assert_true(source.has_value());
    return std::move(*source);
}

std::uint64_t skipped(const FolderSource& source, SkipReason reason) {
    return source.report().of(reason).count;
}

void link_to(const std::string& target, const std::string& path) {
    assert_int_equal(::symlink(target.c_str(), path.c_str()), 0);
}

void assert_fails(const std::string& root, Status status, std::string_view part, FolderOptions options = {}) {
    auto source = FolderSource::scan(root, options);
    assert_false(source.has_value());
    assert_int_equal(source.error().status, status);
    if (source.error().message.find(part) == std::string::npos) {
        print_error("\"%s\" lacks \"%s\"\n", source.error().message.c_str(), std::string(part).c_str());
    }
    assert_true(source.error().message.find(part) != std::string::npos);
}

void labels_follow_the_sorted_names_of_the_class_folders(void**) {
    TempFolder folder;
    for (const char* name : {"zebra/1.jpg", "Zoo/1.jpg", "ant/b.png", "ant/a.JPEG", "\xc3\xa4rgern/x.webp"}) {
        folder.file(name);
    }
    FolderSource source = scanned(folder.root());
    assert_string_equal(joined(source.classes()).c_str(), "[Zoo][ant][zebra][\xc3\xa4rgern]");
    assert_string_equal(samples_of(source).c_str(),
                        "0:Zoo/1.jpg 1:ant/a.JPEG 1:ant/b.png 2:zebra/1.jpg 3:\xc3\xa4rgern/x.webp");
    std::string path;
    source.path(4, path);
    assert_string_equal(path.c_str(), folder.path("\xc3\xa4rgern/x.webp").c_str());
}

// torchvision walks a class folder and sorts the walked directories' whole paths: '-' comes before '/'.
void inside_a_class_directories_then_names_are_sorted_as_torchvision_does(void**) {
    TempFolder folder;
    for (const char* name : {"c/a/b/1.png", "c/a-b/1.png", "c/a/2.png", "c/z.png", "c/10.png", "c/9.png"}) {
        folder.file(name);
    }
    assert_string_equal(samples_of(scanned(folder.root())).c_str(),
                        "0:c/10.png 0:c/9.png 0:c/z.png 0:c/a/2.png 0:c/a-b/1.png 0:c/a/b/1.png");
}

void hidden_files_and_thumbs_are_left_out_and_counted(void**) {
    TempFolder folder;
    for (const char* name : {"a/1.jpg", "a/._1.jpg", "a/.DS_Store", "a/Thumbs.db", "a/.cache/2.jpg",
                             "__MACOSX/a/._1.jpg", "a/notes.txt", "a/README"}) {
        folder.file(name);
    }
    FolderSource source = scanned(folder.root());
    assert_string_equal(joined(source.classes()).c_str(), "[a]");  // only hidden files: no class
    assert_string_equal(samples_of(source).c_str(), "0:a/1.jpg");
    assert_int_equal(skipped(source, SkipReason::kHidden), 4);
    assert_int_equal(skipped(source, SkipReason::kThumbs), 1);
    assert_int_equal(skipped(source, SkipReason::kOther), 2);
    assert_int_equal(source.report().directories, 4);
    assert_true(source.report().summary().find("2 other (a/") != std::string::npos);
}

void an_empty_class_folder_keeps_its_number(void**) {
    TempFolder folder;
    folder.file("a/1.jpg");
    folder.folder("b");
    folder.file("c/2.jpg");
    FolderSource source = scanned(folder.root());
    assert_string_equal(joined(source.classes()).c_str(), "[a][b][c]");
    assert_string_equal(samples_of(source).c_str(), "0:a/1.jpg 2:c/2.jpg");
}

void a_flat_folder_is_one_class_without_a_name(void**) {
    TempFolder folder;
    for (const char* name : {"b.jpg", "a.png", ".git/c.jpg", "list.csv"})
        folder.file(name);
    FolderSource source = scanned(folder.root() + "/");
    assert_string_equal(joined(source.classes()).c_str(), "[]");
    assert_string_equal(samples_of(source).c_str(), "0:a.png 0:b.jpg");
    std::string path;
    source.path(0, path);
    assert_string_equal(path.c_str(), folder.path("a.png").c_str());
}

void images_beside_class_folders_are_outside_any_class(void**) {
    TempFolder folder;
    for (const char* name : {"a/1.jpg", "stray.jpg", "stray2.jpg"})
        folder.file(name);
    FolderSource source = scanned(folder.root());
    assert_string_equal(samples_of(source).c_str(), "0:a/1.jpg");
    assert_int_equal(skipped(source, SkipReason::kOutsideClass), 2);
    assert_string_equal(joined(source.report().of(SkipReason::kOutsideClass).examples).c_str(),
                        "[stray.jpg][stray2.jpg]");
}

void a_link_to_a_parent_repeats_nothing(void**) {
    TempFolder folder;
    for (int i = 0; i < 10; ++i)
        folder.file("data/c/" + std::to_string(i) + ".jpg");
    folder.file("outside/o.jpg");
    link_to("..", folder.path("data/loop"));
    link_to("..", folder.path("data/c/loop"));
    link_to(".", folder.path("data/c/self"));
    FolderSource source = scanned(folder.path("data"));
    assert_int_equal(source.size(), 10);
    assert_string_equal(joined(source.classes()).c_str(), "[c]");
    assert_int_equal(skipped(source, SkipReason::kRepeated), 3);
}

void links_are_followed_but_never_take_a_directory_from_its_own_place(void**) {
    TempFolder folder;
    folder.file("data/z/1.jpg");
    folder.file("elsewhere/2.jpg");
    link_to("z", folder.path("data/a"));
    link_to("../elsewhere", folder.path("data/m"));
    link_to("../../elsewhere/2.jpg", folder.path("data/z/3.jpg"));
    FolderSource source = scanned(folder.path("data"));
    assert_string_equal(joined(source.classes()).c_str(), "[m][z]");
    assert_string_equal(samples_of(source).c_str(), "0:m/2.jpg 1:z/1.jpg 1:z/3.jpg");
}

void broken_links_and_special_files_are_reported_never_samples(void**) {
    TempFolder folder;
    folder.file("a/1.jpg");
    link_to("nowhere", folder.path("a/b.jpg"));
    link_to("round.jpg", folder.path("a/round.jpg"));
    assert_int_equal(::mkfifo(folder.path("a/c.jpg").c_str(), 0600), 0);
    link_to("c.jpg", folder.path("a/d.jpg"));
    link_to("/dev/null", folder.path("a/e.jpg"));
    FolderSource source = scanned(folder.root());
    assert_string_equal(samples_of(source).c_str(), "0:a/1.jpg");
    assert_int_equal(skipped(source, SkipReason::kBroken), 2);
    assert_int_equal(skipped(source, SkipReason::kSpecial), 3);
    assert_fails(folder.root(), Status::kDataset, "2 broken", {.strict = true});
}

// In a child without root's rights, since root passes every check.
void a_forbidden_folder_is_reported_and_a_forbidden_root_is_an_error(void**) {
    TempFolder folder;
    folder.file("a/1.jpg");
    folder.file("b/2.jpg");
    folder.file("c/3.jpg");
    ::chmod(folder.path("b").c_str(), 0000);
    pid_t child = ::fork();
    if (child == 0) {
        if (::geteuid() == 0 && ::setresuid(65'534, 65'534, 65'534) != 0) ::_exit(1);
        auto source = FolderSource::scan(folder.root());
        if (!source || samples_of(*source) != "0:a/1.jpg 2:c/3.jpg") ::_exit(2);
        if (skipped(*source, SkipReason::kDenied) != 1) ::_exit(3);
        if (FolderSource::scan(folder.root(), {.strict = true})) ::_exit(4);
        auto root = FolderSource::scan(folder.path("b"));
        ::_exit(!root && root.error().status == Status::kDenied ? 0 : 5);
    }
    int status = 0;
    assert_int_equal(::waitpid(child, &status, 0), child);
    ::chmod(folder.path("b").c_str(), 0755);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

void a_root_without_images_is_an_error_that_says_what_was_found(void**) {
    TempFolder folder;
    assert_fails(folder.path("missing"), Status::kNotFound, "missing\" does not exist");
    assert_fails(folder.root(), Status::kDataset, "has no images: 1 directory");
    auto file = folder.file("a/notes.txt");
    assert_fails(file, Status::kDataset, "is not a folder");
    assert_fails(folder.root(), Status::kDataset, "2 directories; left out: 1 other (a/notes.txt)");
    folder.file("stray.jpg");
    assert_fails(folder.root(), Status::kDataset, "has no images in its class folders");
}

void the_fingerprint_follows_names_and_labels_only(void**) {
    TempFolder first;
    TempFolder second;
    for (const auto* folder : {&first, &second}) {
        folder->file("a/1.jpg");
        folder->file("b/2.jpg");
    }
    std::uint64_t before = scanned(first.root()).fingerprint();
    assert_int_equal(scanned(second.root()).fingerprint(), before);
    second.file("b/2.jpg", coded_bytes(0, 10));
    assert_int_equal(scanned(second.root()).fingerprint(), before);
    second.folder("aa");  // moves b's label
    assert_int_not_equal(scanned(second.root()).fingerprint(), before);
    first.file("b/3.jpg");
    assert_int_not_equal(scanned(first.root()).fingerprint(), before);
}

void the_report_keeps_the_first_twenty_names(void**) {
    TempFolder folder;
    folder.file("a/1.jpg");
    for (int i = 0; i < 30; ++i)
        folder.file("a/" + std::to_string(i) + ".txt");
    FolderSource source = scanned(folder.root());
    assert_int_equal(skipped(source, SkipReason::kOther), 30);
    assert_int_equal(source.report().of(SkipReason::kOther).examples.size(), 20);
}

}  // namespace
}  // namespace sl::testing

int main() {
    using namespace sl::testing;
    const CMUnitTest tests[] = {
        cmocka_unit_test(labels_follow_the_sorted_names_of_the_class_folders),
        cmocka_unit_test(inside_a_class_directories_then_names_are_sorted_as_torchvision_does),
        cmocka_unit_test(hidden_files_and_thumbs_are_left_out_and_counted),
        cmocka_unit_test(an_empty_class_folder_keeps_its_number),
        cmocka_unit_test(a_flat_folder_is_one_class_without_a_name),
        cmocka_unit_test(images_beside_class_folders_are_outside_any_class),
        cmocka_unit_test(a_link_to_a_parent_repeats_nothing),
        cmocka_unit_test(links_are_followed_but_never_take_a_directory_from_its_own_place),
        cmocka_unit_test(broken_links_and_special_files_are_reported_never_samples),
        cmocka_unit_test(a_forbidden_folder_is_reported_and_a_forbidden_root_is_an_error),
        cmocka_unit_test(a_root_without_images_is_an_error_that_says_what_was_found),
        cmocka_unit_test(the_fingerprint_follows_names_and_labels_only),
        cmocka_unit_test(the_report_keeps_the_first_twenty_names),
    };
    return cmocka_run_group_tests_name("image_folder", tests, nullptr, nullptr);
}
