// A small dataset with a cache folder beside it, for the tests of kept scans; and what is asked of a scan.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "io/folder_source.h"
#include "io/manifest_file.h"
#include "tests/reader/fixture.h"

namespace sl::testing {

namespace fs = std::filesystem;

// All that a source says, as text.
inline std::string all_of(const FolderSource& source) {
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

inline void assert_used(const FolderSource& source, bool used) {
    const ManifestUse& use = source.manifest_use();
    if (use.used != used) print_error("used %d, \"%s\"\n", use.used, use.note.c_str());
    assert_int_equal(use.used, used);
}

inline std::vector<char> bytes_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

inline void write(const std::string& path, const std::vector<char>& bytes) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    assert_true(file.good());
}

}  // namespace sl::testing
