// Promise: decoding a region gives the bytes of decoding the whole picture and cropping.
//
// More than a thousand random boxes over every sampling, coding and restart layout, and over the wallpapers
// of the machine where there are any. The reference is a plain libjpeg decode written here, not the code
// under test.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "daemon/worker/decode/decoder.h"
#include "tests/pixels/jpeg_maker.h"

// clang-format off: cmocka defines a macro named fail, so it comes behind everything of ours
#include "tests/cmocka_cpp.h"
// clang-format on

namespace {

using sl::Box;
using sl::test::JpegKind;

constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};

struct Picture {
    std::uint32_t width = 0;
    std::uint32_t height = 0;
    std::vector<std::uint8_t> rgb;
};

Picture decode_whole(const std::vector<std::byte>& file, sl::Profile profile) {
    jpeg_decompress_struct library{};
    jpeg_error_mgr errors{};
    library.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&library);
    jpeg_mem_src(&library, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    jpeg_read_header(&library, TRUE);
    library.out_color_space = JCS_RGB;
    library.dct_method = profile == sl::Profile::kFast ? JDCT_IFAST : JDCT_ISLOW;
    library.do_fancy_upsampling = profile == sl::Profile::kFast ? FALSE : TRUE;
    jpeg_start_decompress(&library);
    Picture picture{library.output_width, library.output_height, {}};
    const std::size_t stride = std::size_t{picture.width} * 3;
    picture.rgb.resize(stride * picture.height);
    while (library.output_scanline < library.output_height) {
        JSAMPROW row = picture.rgb.data() + stride * library.output_scanline;
        jpeg_read_scanlines(&library, &row, 1);
    }
    jpeg_finish_decompress(&library);
    jpeg_destroy_decompress(&library);
    return picture;
}

Box random_box(std::mt19937_64& random, std::uint32_t width, std::uint32_t height) {
    Box box;
    box.width = 1 + static_cast<std::uint32_t>(random() % width);
    box.height = 1 + static_cast<std::uint32_t>(random() % height);
    box.x = static_cast<std::uint32_t>(random() % (width - box.width + 1));
    box.y = static_cast<std::uint32_t>(random() % (height - box.height + 1));
    return box;
}

void expect_equal(const sl::Region& region, const Picture& whole, const Box& box, const std::string& name) {
    assert_int_equal(region.width, box.width);
    assert_int_equal(region.height, box.height);
    for (std::uint32_t y = 0; y < box.height; ++y) {
        const std::uint8_t* want = whole.rgb.data() + (std::size_t{box.y + y} * whole.width + box.x) * 3;
        const std::uint8_t* got = region.pixels + region.stride * y;
        if (std::memcmp(want, got, std::size_t{box.width} * 3) == 0) continue;
        print_message("%s: row %u of box %u,%u %ux%u of %ux%u differs\n", name.c_str(), y, box.x, box.y,
                      box.width, box.height, whole.width, whole.height);
        assert_memory_equal(want, got, std::size_t{box.width} * 3);
    }
}

void compare_boxes(sl::Decoder& decoder, const std::vector<std::byte>& file, const std::string& name,
                   int boxes, std::mt19937_64& random, sl::Profile profile) {
    const Picture whole = decode_whole(file, profile);
    for (int i = 0; i < boxes; ++i) {
        const Box box =
            i == 0 ? Box{0, 0, whole.width, whole.height} : random_box(random, whole.width, whole.height);
        const auto info = decoder.probe(file, kNoLimit);
        assert_true(info.has_value());
        assert_int_equal(info->width, whole.width);
        const auto region = decoder.decode_region(
            {.box = box, .profile = profile, .target_width = box.width, .target_height = box.height});
        assert_true(region.has_value());
        assert_int_equal(region->warnings, 0);
        expect_equal(*region, whole, box, name);
    }
}

std::vector<JpegKind> all_kinds() {
    struct Sampling {
        const char* name;
        int components, horizontal, vertical;
    };
    constexpr Sampling kSamplings[] = {{"4:4:4", 3, 1, 1}, {"4:2:2", 3, 2, 1}, {"4:2:0", 3, 2, 2},
                                       {"4:4:0", 3, 1, 2}, {"4:1:1", 3, 4, 1}, {"grey", 1, 1, 1}};
    std::vector<JpegKind> kinds;
    for (const Sampling& s : kSamplings) {
        JpegKind kind{.name = s.name,
                      .width = 203,
                      .height = 149,
                      .components = s.components,
                      .horizontal = s.horizontal,
                      .vertical = s.vertical};
        kinds.push_back(kind);
        JpegKind even = kind;
        even.name += " even";
        even.width = 256;
        even.height = 192;
        kinds.push_back(even);
        JpegKind progressive = kind;
        progressive.name += " progressive";
        progressive.progressive = true;
        kinds.push_back(progressive);
        JpegKind restart = kind;
        restart.name += " restart";
        restart.restart_blocks = 7;
        kinds.push_back(restart);
        JpegKind arithmetic = kind;
        arithmetic.name += " arithmetic";
        arithmetic.arithmetic = true;
        kinds.push_back(arithmetic);
        JpegKind thin = kind;
        thin.name += " thin";
        thin.width = 5;
        thin.height = 331;
        kinds.push_back(thin);
    }
    return kinds;
}

void compare_boxes(sl::Decoder& decoder, const std::vector<std::byte>& file, const std::string& name,
                   int boxes, std::mt19937_64& random) {
    compare_boxes(decoder, file, name, boxes, random, sl::Profile::kPillow);
    compare_boxes(decoder, file, name + " (fast)", boxes, random, sl::Profile::kFast);
}

void a_region_of_any_coding_has_the_bytes_of_the_whole_cropped(void**) {
    std::mt19937_64 random(20240601);
    sl::Decoder decoder;
    std::uint64_t seed = 0;
    for (const JpegKind& kind : all_kinds()) {
        compare_boxes(decoder, sl::test::make_jpeg(kind, ++seed), kind.name, 40, random);
    }
}

void every_edge_column_and_row_of_small_pictures_is_right(void**) {
    std::mt19937_64 random(7);
    sl::Decoder decoder;
    for (std::uint32_t width = 1; width <= 35; width += 2) {
        for (const int horizontal : {1, 2}) {
            const JpegKind kind{.name = "small",
                                .width = width,
                                .height = 36 - width,
                                .horizontal = horizontal,
                                .vertical = horizontal};
            compare_boxes(decoder, sl::test::make_jpeg(kind, width), kind.name, 12, random);
        }
    }
}

void regions_of_real_photographs_have_the_bytes_of_the_whole_cropped(void**) {
    const std::filesystem::path folder = "/usr/share/backgrounds";
    std::vector<std::filesystem::path> files;
    if (std::filesystem::is_directory(folder)) {
        for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
            if (entry.is_regular_file() && entry.path().extension() == ".jpg") files.push_back(entry.path());
        }
    }
    if (files.empty()) skip();
    std::ranges::sort(files);
    files.resize(std::min<std::size_t>(files.size(), 4));
    std::mt19937_64 random(99);
    sl::Decoder decoder;
    for (const auto& path : files) {
        std::ifstream stream(path, std::ios::binary);
        const std::vector<char> text{std::istreambuf_iterator<char>(stream), {}};
        std::vector<std::byte> file(text.size());
        std::memcpy(file.data(), text.data(), text.size());
        compare_boxes(decoder, file, path.filename().string(), 4, random);
    }
}

}  // namespace

int main() {
    if (!sl::start_codecs()) return 1;
    const CMUnitTest tests[] = {
        cmocka_unit_test(a_region_of_any_coding_has_the_bytes_of_the_whole_cropped),
        cmocka_unit_test(every_edge_column_and_row_of_small_pictures_is_right),
        cmocka_unit_test(regions_of_real_photographs_have_the_bytes_of_the_whole_cropped),
    };
    return cmocka_run_group_tests_name("decode region", tests, nullptr, nullptr);
}
