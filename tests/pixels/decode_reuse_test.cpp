// Promise: a decoder that has done other pictures gives the next one the bytes that a new decoder gives it.
//
// Every picture after every other, whole ones after cut ones too, in both profiles, with and without DCT
// scaling, single-threaded on one decoder as in a worker. The decoders are fenced (fenced_jpeg.h), so a read
// or write in the memory of an earlier picture ends the test whatever malloc has done with that memory.
// libjpeg-turbo before 3.1.2 does one in jpeg_skip_scanlines after a picture that upsampled and converted in
// one step follows one that did not.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "daemon/worker/decode/decoder.h"
#include "tests/pixels/fenced_jpeg.h"
#include "tests/pixels/jpeg_maker.h"

// clang-format off: cmocka defines a macro named fail, so it comes behind everything of ours
#include "tests/cmocka_cpp.h"
// clang-format on

namespace {

using sl::Box;
using sl::Profile;
using sl::test::JpegKind;

constexpr std::uint32_t kWidth = 83;
constexpr std::uint32_t kHeight = 71;
// Rows that are no multiple of a block row's 8 or 16, so that libjpeg must read some of those it skips.
constexpr Box kBox{21, 27, 50, 40};

struct Task {
    std::string name;
    std::vector<std::byte> file;
    sl::RegionRequest request;
};

// Empty where the decode failed.
std::vector<std::uint8_t> decode(sl::Decoder& decoder, const Task& task) {
    if (!decoder.probe(task.file, ~std::uint64_t{0})) return {};
    const auto region = decoder.decode_region(task.request);
    if (!region) return {};
    std::vector<std::uint8_t> pixels;
    for (std::uint32_t y = 0; y < region->height; ++y) {
        const std::uint8_t* row = region->pixels + region->stride * y;
        pixels.insert(pixels.end(), row, row + std::size_t{region->width} * region->channels);
    }
    return pixels;
}

std::vector<JpegKind> kinds() {
    const JpegKind base{.name = "4:4:4", .width = kWidth, .height = kHeight};
    std::vector<JpegKind> kinds{base};
    const auto add = [&](const char* name, int components, int horizontal, int vertical, bool progressive) {
        JpegKind kind = base;
        kind.name = name;
        kind.components = components;
        kind.horizontal = horizontal;
        kind.vertical = vertical;
        kind.progressive = progressive;
        kinds.push_back(kind);
    };
    add("4:2:0", 3, 2, 2, false);
    add("4:2:2", 3, 2, 1, false);
    add("4:4:0", 3, 1, 2, false);
    add("4:2:0 progressive", 3, 2, 2, true);
    add("grey", 1, 1, 1, false);
    add("CMYK", 4, 1, 1, false);
    return kinds;
}

std::vector<Task> all_tasks() {
    std::vector<Task> tasks;
    std::uint64_t seed = 0;
    for (const JpegKind& kind : kinds()) {
        const std::vector<std::byte> whole = sl::test::make_jpeg(kind, ++seed);
        for (const Profile profile : {Profile::kPillow, Profile::kFast}) {
            const std::string name = kind.name + (profile == Profile::kFast ? " fast" : " pillow");
            sl::RegionRequest request{
                .box = kBox, .profile = profile, .target_width = kBox.width, .target_height = kBox.height};
            tasks.push_back({name, whole, request});
            tasks.push_back({name + ", cut",
                             {whole.begin(), whole.end() - static_cast<long>(whole.size() / 2)},
                             request});
            request.target_width /= 2;
            request.target_height /= 2;
            tasks.push_back({name + " at half size", whole, request});
        }
    }
    return tasks;
}

void a_used_decoder_decodes_every_picture_as_a_new_one_does(void**) {
    const std::vector<Task> tasks = all_tasks();
    std::vector<std::vector<std::uint8_t>> expected;
    for (const Task& task : tasks) {
        sl::Decoder fresh;
        expected.push_back(decode(fresh, task));
        assert_true(expected.back().empty() == task.name.ends_with("cut"));
    }
    sl::Decoder used;
    for (const Task& first : tasks) {
        for (std::size_t i = 0; i < tasks.size(); ++i) {
            static_cast<void>(decode(used, first));
            const std::vector<std::uint8_t> pixels = decode(used, tasks[i]);
            if (pixels != expected[i]) {
                print_message("%s after %s differs\n", tasks[i].name.c_str(), first.name.c_str());
            }
            assert_true(pixels == expected[i]);
        }
    }
    assert_true(sl::test::fenced_pictures() > 2 * tasks.size() * tasks.size());
}

}  // namespace

int main() {
    if (!sl::start_codecs()) return 1;
    const CMUnitTest tests[] = {
        cmocka_unit_test(a_used_decoder_decodes_every_picture_as_a_new_one_does),
    };
    return cmocka_run_group_tests_name("decode reuse", tests, nullptr, nullptr);
}
