// Promise: what a file is, and that it cannot be decoded, is known from its header, by a typed error.
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "daemon/worker/decode/bmp.h"
#include "daemon/worker/decode/colour.h"
#include "daemon/worker/decode/decoder.h"
#include "daemon/worker/decode/glance.h"
#include "daemon/worker/decode/jpeg_header.h"
#include "daemon/worker/decode/sniff.h"
#include "tests/pixels/jpeg_maker.h"

// clang-format off: cmocka defines a macro named fail, so it comes behind everything of ours
#include "tests/cmocka_cpp.h"
// clang-format on

namespace {

using sl::SampleErrorKind;

std::vector<std::byte> bytes_of(std::string_view text) {
    const auto* data = reinterpret_cast<const std::byte*>(text.data());
    return {data, data + text.size()};
}

sl::test::JpegKind small() {
    return {.name = "small", .width = 33, .height = 21, .horizontal = 2, .vertical = 2};
}

std::size_t frame_at(const std::vector<std::byte>& file) {
    for (std::size_t i = 0; i + 1 < file.size(); ++i) {
        if (file[i] == std::byte{0xFF} && (file[i + 1] == std::byte{0xC0} || file[i + 1] == std::byte{0xC2}))
            return i;
    }
    return 0;
}

void an_unknown_start_is_shown_in_hex(void**) {
    const auto found = sl::sniff(bytes_of("\x01\x02hello world"));
    assert_false(found.has_value());
    assert_int_equal(found.error().kind, SampleErrorKind::kUnsupportedFormat);
    assert_non_null(std::strstr(found.error().message.c_str(), "01 02 68 65 6c 6c 6f 20"));
}

void no_bytes_are_empty(void**) {
    const auto found = sl::sniff({});
    assert_false(found.has_value());
    assert_int_equal(found.error().kind, SampleErrorKind::kEmpty);
}

void an_avif_brand_outweighs_the_generic_heif_brand(void**) {
    using namespace std::string_view_literals;
    assert_true(sl::sniff(bytes_of("\0\0\0\x1c"
                                   "ftypmif1\0\0\0\0mif1avifmiaf"sv))
                    .value() == sl::ImageFormat::kAvif);
    assert_true(sl::sniff(bytes_of("\0\0\0\x18"
                                   "ftypmif1\0\0\0\0mif1heic"sv))
                    .value() == sl::ImageFormat::kHeic);
}

void the_header_gives_size_and_coding_of_every_kind(void**) {
    sl::test::JpegKind kind = small();
    auto info = sl::read_jpeg_header(sl::test::make_jpeg(kind, 1));
    assert_int_equal(info->width, 33);
    assert_int_equal(info->height, 21);
    assert_int_equal(info->components, 3);
    assert_false(info->progressive);
    kind.progressive = true;
    assert_true(sl::read_jpeg_header(sl::test::make_jpeg(kind, 1))->progressive);
}

void a_header_cut_anywhere_is_truncated_and_never_read_beyond_its_end(void**) {
    const auto file = sl::test::make_jpeg(small(), 2);
    const std::size_t header_end = frame_at(file) + 10;
    for (std::size_t size = 3; size < header_end; ++size) {
        const std::vector<std::byte> cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
        const auto info = sl::read_jpeg_header(cut);
        assert_false(info.has_value());
        assert_int_equal(info.error().kind, SampleErrorKind::kTruncated);
        assert_int_equal(info.error().offset, size);
    }
}

void img06_rare_frames_are_unsupported_coding_naming_marker_and_precision(void**) {
    const auto file = sl::test::make_jpeg(small(), 3);
    const std::size_t frame = frame_at(file);
    struct Patch {
        std::size_t offset;
        int value;
        const char* words;
    };
    for (const Patch& patch :
         {Patch{1, 0xC3, "FFC3 with 8 bits"}, Patch{1, 0xC5, "FFC5"}, Patch{1, 0xDE, "FFDE"},
          Patch{4, 12, "FFC0 with 12 bits"}, Patch{6, 0, "height 0"}}) {
        auto patched = file;
        patched[frame + patch.offset] = static_cast<std::byte>(patch.value);
        if (patch.offset == 6) patched[frame + 5] = std::byte{0};
        const auto info = sl::read_jpeg_header(patched);
        assert_false(info.has_value());
        assert_int_equal(info.error().kind, SampleErrorKind::kUnsupportedCoding);
        assert_non_null(std::strstr(info.error().message.c_str(), patch.words));
    }
}

void an_end_marker_is_found_behind_trailing_bytes_but_not_before_the_scan(void**) {
    auto file = bytes_of("\xFF\xD9 header \xFF\xD9 tail");
    assert_true(sl::has_end_marker(file, 4));
    assert_false(sl::has_end_marker(file, 12));
    file.resize(file.size() + 100'000);
    assert_false(sl::has_end_marker(file, 4));
}

void a_16_bit_value_becomes_the_nearest_8_bit_one(void**) {
    for (std::uint32_t value = 0; value < 65536; ++value) {
        const auto wide = static_cast<std::uint16_t>(value);
        std::uint8_t narrow = 0;
        sl::narrow_to_8(&wide, &narrow, 1);
        assert_int_equal(narrow, (2 * value + 257) / 514);
    }
}

void a_box_outside_the_picture_is_refused(void**) {
    sl::Decoder decoder;
    const auto file = sl::test::make_jpeg(small(), 4);
    assert_true(decoder.probe(file, 1000).has_value());
    for (const sl::Box& box : {sl::Box{0, 0, 34, 1}, sl::Box{1, 0, 33, 1}, sl::Box{0, 20, 1, 2},
                               sl::Box{0, 0, 0, 1}, sl::Box{0xFFFFFFFF, 0, 2, 1}}) {
        const auto region = decoder.decode_region({.box = box});
        assert_false(region.has_value());
        assert_int_equal(region.error().kind, SampleErrorKind::kShapeMismatch);
    }
}

void any_single_damaged_byte_gives_pixels_or_a_typed_error(void**) {
    sl::Decoder decoder;
    for (const bool progressive : {false, true}) {
        auto kind = small();
        kind.progressive = progressive;
        kind.restart_blocks = 2;
        const auto file = sl::test::make_jpeg(kind, 5);
        for (std::size_t i = 3; i < file.size(); ++i) {
            for (const int value : {0x00, 0x7F, 0xFF}) {
                auto damaged = file;
                damaged[i] = static_cast<std::byte>(value);
                const auto info = decoder.probe(damaged, 1 << 20);
                if (!info) {
                    assert_int_not_equal(info.error().kind, SampleErrorKind::kNone);
                    continue;
                }
                const auto region = decoder.decode_region({.box = {0, 0, info->width, info->height}});
                if (!region) assert_int_not_equal(region.error().kind, SampleErrorKind::kNone);
                if (region) assert_int_equal(region->width, info->width);
            }
        }
    }
}

// What the leading bytes of each format may be followed by: nothing of use, and nothing that makes it read
// on.
void a_glance_at_bytes_that_are_cut_or_senseless_tells_nothing_or_a_size_and_stays_inside(void**) {
    using namespace std::string_view_literals;
    for (const auto start :
         {"\xFF\xD8\xFF"sv, "\x89PNG\r\n\x1A\n"sv, "GIF89a"sv, "RIFF....WEBPVP8 "sv, "RIFF....WEBPVP8L"sv,
          "RIFF....WEBPVP8X"sv, "II*\0\x08\0\0\0\xFF\xFF"sv, "MM\0*\0\0\0\x08\xFF\xFF"sv,
          "II*\0\xFF\xFF\xFF\xFF"sv, "II+\0"sv, "BM"sv, "hello"sv, ""sv}) {
        for (const char filler : {'\0', '\x01', '\x7F', '\xFF'}) {
            for (std::size_t length = 0; length < 64; ++length) {
                std::string text(start.substr(0, length));
                text.resize(length, filler);
                const auto file = bytes_of(text);  // on the heap, so that a sanitizer sees its end
                const auto found = sl::glance(file);
                if (found) assert_true(found->width > 0 && found->height > 0);
            }
        }
    }
    const auto jpeg = sl::test::make_jpeg(small(), 4);
    for (std::size_t length = 0; length < jpeg.size(); ++length) {
        const std::vector<std::byte> cut(jpeg.begin(), jpeg.begin() + static_cast<std::ptrdiff_t>(length));
        const auto found = sl::glance(cut);
        assert_int_equal(found.has_value(), length >= frame_at(jpeg) + 10);
        if (found) assert_true(found->width == 33 && found->height == 21);
    }
}

}  // namespace

int main() {
    if (!sl::start_codecs()) return 1;
    const CMUnitTest tests[] = {
        cmocka_unit_test(an_unknown_start_is_shown_in_hex),
        cmocka_unit_test(no_bytes_are_empty),
        cmocka_unit_test(an_avif_brand_outweighs_the_generic_heif_brand),
        cmocka_unit_test(the_header_gives_size_and_coding_of_every_kind),
        cmocka_unit_test(a_header_cut_anywhere_is_truncated_and_never_read_beyond_its_end),
        cmocka_unit_test(img06_rare_frames_are_unsupported_coding_naming_marker_and_precision),
        cmocka_unit_test(an_end_marker_is_found_behind_trailing_bytes_but_not_before_the_scan),
        cmocka_unit_test(a_16_bit_value_becomes_the_nearest_8_bit_one),
        cmocka_unit_test(a_box_outside_the_picture_is_refused),
        cmocka_unit_test(
            a_glance_at_bytes_that_are_cut_or_senseless_tells_nothing_or_a_size_and_stays_inside),
        cmocka_unit_test(any_single_damaged_byte_gives_pixels_or_a_typed_error),
    };
    return cmocka_run_group_tests_name("decode headers", tests, nullptr, nullptr);
}
