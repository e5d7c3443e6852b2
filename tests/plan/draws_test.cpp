// Draws give the boxes, sizes and offsets that torchvision's formulas give, to the pixel.
//
// The expected numbers were computed in Python, by torchvision's own expressions, outside of this program.
#include "daemon/plan/draws.h"

#include <set>
#include <tuple>

#include "tests/plan/pipelines.h"

namespace sl {
namespace {

constexpr DrawKey kKey{.seed = 1, .epoch = 2, .sample_id = 3};

struct CropCase {
    DrawKey key;
    std::uint32_t width, height;
    Box box;
};

void a_crop_box_is_the_one_that_torchvisions_formula_gives_for_these_numbers(void**) {
    constexpr CropCase kCases[] = {
        {{0U, 0U, 0U}, 500, 375, {11, 44, 336, 292}},
        {{0U, 0U, 1U}, 500, 375, {16, 21, 345, 324}},
        {{0U, 1U, 0U}, 500, 375, {57, 35, 348, 314}},
        {{1U, 0U, 0U}, 500, 375, {82, 54, 254, 316}},
        {{18446744073709551615U, 1099511627781U, 9223372036854775817U}, 4000, 3000, {2394, 671, 1344, 1489}},
        {{7U, 3U, 123456U}, 97, 301, {1, 77, 94, 99}},
        {{7U, 3U, 123457U}, 2, 3, {0, 0, 2, 2}},
        {{7U, 3U, 5U}, 640, 480, {21, 232, 232, 215}},
        {{7U, 3U, 6U}, 33, 50, {9, 21, 23, 22}},
    };
    const Pipeline pipeline = pipeline_of(kCrop224);
    for (const CropCase& c : kCases) {
        const Geometry g = resolve_geometry(pipeline, c.key, c.width, c.height);
        assert_true(g.box == c.box);
        assert_int_equal(g.resize_width, 224);
        assert_int_equal(g.resize_height, 224);
        assert_int_equal(g.crop_x, 0);
        assert_int_equal(g.crop_y, 0);
        assert_false(g.flip);
    }
}

void IMG_12_when_no_try_fits_the_crop_is_torchvisions_central_one(void**) {
    constexpr CropCase kCases[] = {
        {kKey, 1, 20000, {0, 9999, 1, 1}}, {kKey, 20000, 1, {9999, 0, 1, 1}}, {kKey, 1, 500, {0, 249, 1, 1}},
        {kKey, 500, 1, {249, 0, 1, 1}},    {kKey, 2, 1000, {0, 498, 2, 3}},   {kKey, 1000, 2, {498, 0, 3, 2}},
        {kKey, 3, 900, {0, 448, 3, 4}},    {kKey, 900, 3, {448, 0, 4, 3}},    {kKey, 900, 6, {446, 0, 8, 6}},
    };
    const Pipeline pipeline = pipeline_of(kCrop224);
    for (const CropCase& c : kCases) {
        assert_true(resolve_geometry(pipeline, c.key, c.width, c.height).box == c.box);
    }
}

void a_short_side_resize_truncates_the_long_side_as_torchvision_does(void**) {
    struct Case {
        std::uint32_t width, height, size, out_width, out_height;
    };
    constexpr Case kCases[] = {
        {500, 375, 256, 341, 256},
        {375, 500, 256, 256, 341},
        {333, 500, 256, 256, 384},
        {500, 333, 256, 384, 256},
        {640, 427, 256, 383, 256},
        {1, 1, 256, 256, 256},
        {1, 20000, 256, 256, 5120000},
        {20000, 1, 256, 5120000, 256},
        {256, 256, 256, 256, 256},
        {255, 257, 256, 256, 258},
        {3, 2, 1, 1, 1},
        {4000, 3001, 224, 298, 224},
    };
    for (const Case& c : kCases) {
        const Pipeline pipeline = pipeline_of(R"({"op": "resize", "size": )" + std::to_string(c.size) +
                                              R"(}, {"op": "center_crop", "size": 1})");
        const Geometry g = resolve_geometry(pipeline, kKey, c.width, c.height);
        assert_int_equal(g.resize_width, c.out_width);
        assert_int_equal(g.resize_height, c.out_height);
        assert_true((g.box == Box{0, 0, c.width, c.height}));
    }
}

void a_center_crop_begins_where_torchvisions_does_and_pads_as_it_does(void**) {
    struct Case {
        int width, height, crop_width, crop_height, x, y;
    };
    constexpr Case kCases[] = {
        {500, 375, 224, 224, 138, 76}, {225, 227, 224, 224, 0, 2},    {229, 231, 224, 224, 2, 4},
        {224, 224, 224, 224, 0, 0},    {100, 300, 224, 224, -62, 38}, {301, 99, 224, 224, 38, -62},
        {1, 1, 4, 5, -1, -2},          {223, 225, 224, 224, 0, 0},    {7, 10, 4, 3, 2, 4},
    };
    for (const Case& c : kCases) {
        const auto pair = [](int height, int width) {
            return "[" + std::to_string(height) + ", " + std::to_string(width) + "]";
        };
        const Pipeline pipeline =
            pipeline_of(R"({"op": "resize", "size": )" + pair(c.height, c.width) +
                        R"(}, {"op": "center_crop", "size": )" + pair(c.crop_height, c.crop_width) + "}");
        const Geometry g = resolve_geometry(pipeline, kKey, 1000, 1000);
        assert_int_equal(g.crop_x, c.x);
        assert_int_equal(g.crop_y, c.y);
        assert_int_equal(pipeline.width, c.crop_width);
        assert_int_equal(pipeline.height, c.crop_height);
    }
}

void a_crop_of_an_unscaled_picture_reads_only_what_it_shows(void**) {
    const Pipeline pipeline = pipeline_of(R"({"op": "center_crop", "size": [100, 50]})");
    const Geometry inside = resolve_geometry(pipeline, kKey, 200, 300);
    assert_true((inside == Geometry{.box = {75, 100, 50, 100}, .resize_width = 50, .resize_height = 100}));
    const Geometry narrow =
        resolve_geometry(pipeline, kKey, 31, 300);  // 19 columns missing: 9 left, 10 right
    assert_true((narrow ==
                 Geometry{.box = {0, 100, 31, 100}, .resize_width = 31, .resize_height = 100, .crop_x = -9}));
    const Geometry dot = resolve_geometry(pipeline, kKey, 1, 1);
    assert_true(
        (dot ==
         Geometry{.box = {0, 0, 1, 1}, .resize_width = 1, .resize_height = 1, .crop_x = -24, .crop_y = -49}));
}

void without_ops_the_whole_picture_is_taken_as_it_is(void**) {
    const Geometry g = resolve_geometry(pipeline_of(""), kKey, 31, 17);
    assert_true((g == Geometry{.box = {0, 0, 31, 17}, .resize_width = 31, .resize_height = 17}));
}

// Cropping the mirror image from the left is cropping from the right and then mirroring.
void a_flip_before_a_center_crop_mirrors_the_crops_place(void**) {
    const std::string flip = R"({"op": "random_horizontal_flip", "p": 1}, )";
    const std::string crop = R"({"op": "center_crop", "size": 4})";
    const Geometry before = resolve_geometry(pipeline_of(flip + crop), kKey, 7, 9);
    const Geometry plain = resolve_geometry(pipeline_of(crop), kKey, 7, 9);
    assert_true((plain.box == Box{2, 2, 4, 4}));   // 1.5 and 2.5 both round to 2
    assert_true((before.box == Box{1, 2, 4, 4}));  // 7 - 4 - 2
    assert_true(before.flip);
}

void two_flips_undo_each_other(void**) {
    const std::string flip = R"({"op": "random_horizontal_flip", "p": 1})";
    assert_true(resolve_geometry(pipeline_of(flip), kKey, 5, 5).flip);
    assert_false(resolve_geometry(pipeline_of(flip + "," + flip), kKey, 5, 5).flip);
    assert_false(
        resolve_geometry(pipeline_of(R"({"op": "random_horizontal_flip", "p": 0})"), kKey, 5, 5).flip);
}

void IMG_12_a_resize_of_a_very_long_picture_is_a_pixel_budget_error_before_any_buffer(void**) {
    const Pipeline pipeline =
        pipeline_of(R"({"op": "resize", "size": 256}, {"op": "center_crop", "size": 224})");
    const Geometry g = resolve_geometry(pipeline, kKey, 20000, 1);
    assert_int_equal(resized_pixels(g), 5120000ULL * 256);
    const auto refused = check_geometry(pipeline, g);
    assert_false(refused.has_value());
    assert_true(refused.error().kind == SampleErrorKind::kPixelBudget);
    assert_string_equal(refused.error().message.c_str(),
                        "resizing would make 5120000 x 256 pixels, more than max_pixels 268435456");
    const Geometry longest = resolve_geometry(pipeline, kKey, UINT32_MAX, 1);
    assert_true(check_geometry(pipeline, longest).error().kind == SampleErrorKind::kPixelBudget);
}

void IMG_12_one_pixel_survives_every_op(void**) {
    const std::string all[] = {kCrop224, R"({"op": "resize", "size": [5, 7]})",
                               R"({"op": "resize", "size": 256}, {"op": "center_crop", "size": 224})",
                               R"({"op": "center_crop", "size": 224})"};
    for (const std::string& ops : all) {
        const Pipeline pipeline = pipeline_of(ops + "," + kFlip);
        const Geometry g = resolve_geometry(pipeline, kKey, 1, 1);
        assert_true((g.box == Box{0, 0, 1, 1}));
        assert_true(g.resize_width >= 1 && g.resize_height >= 1);
        assert_true(check_geometry(pipeline, g).has_value());
    }
}

void a_picture_of_another_size_is_a_shape_mismatch_when_no_op_sets_the_size(void**) {
    Pipeline pipeline = pipeline_of(kFlip);
    assert_false(has_fixed_size(pipeline));
    pipeline.width = 31;
    pipeline.height = 17;
    assert_true(check_geometry(pipeline, resolve_geometry(pipeline, kKey, 31, 17)).has_value());
    const auto refused = check_geometry(pipeline, resolve_geometry(pipeline, kKey, 31, 18));
    assert_true(refused.error().kind == SampleErrorKind::kShapeMismatch);
    const auto empty = check_geometry(pipeline, resolve_geometry(pipeline, kKey, 0, 17));
    assert_true(empty.error().kind == SampleErrorKind::kShapeMismatch);
}

void every_box_lies_within_its_picture(void**) {
    const Pipeline pipeline = pipeline_of(R"({"op": "random_resized_crop", "size": 8, "scale": [0.0001, 1],
                                              "ratio": [0.01, 100]})");
    for (std::uint64_t id = 0; id < 50000; ++id) {
        const auto width = static_cast<std::uint32_t>(1 + id % 61);
        const auto height = static_cast<std::uint32_t>(1 + id / 61 % 53);
        const Box box =
            resolve_geometry(pipeline, {.seed = 0, .epoch = 0, .sample_id = id}, width, height).box;
        assert_true(box.width >= 1 && box.height >= 1);
        assert_true(box.x + box.width <= width && box.y + box.height <= height);
    }
}

// A flip alone is one of two, so the draws are the box with the flip; a large picture has room for all of
// them.
void LDR_04_no_two_samples_share_their_draws_and_no_sample_repeats_them_in_the_next_epoch(void**) {
    const Pipeline pipeline = pipeline_of(kCrop224 + "," + kFlip);
    std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, bool>> seen;
    for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
        for (std::uint64_t id = 0; id < 10000; ++id) {
            const Geometry g =
                resolve_geometry(pipeline, {.seed = 0, .epoch = epoch, .sample_id = id}, 8192, 6144);
            seen.insert({g.box.x, g.box.y, g.box.width, g.box.height, g.flip});
        }
    }
    assert_int_equal(seen.size(), 20000);
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(a_crop_box_is_the_one_that_torchvisions_formula_gives_for_these_numbers),
        cmocka_unit_test(IMG_12_when_no_try_fits_the_crop_is_torchvisions_central_one),
        cmocka_unit_test(a_short_side_resize_truncates_the_long_side_as_torchvision_does),
        cmocka_unit_test(a_center_crop_begins_where_torchvisions_does_and_pads_as_it_does),
        cmocka_unit_test(a_crop_of_an_unscaled_picture_reads_only_what_it_shows),
        cmocka_unit_test(without_ops_the_whole_picture_is_taken_as_it_is),
        cmocka_unit_test(a_flip_before_a_center_crop_mirrors_the_crops_place),
        cmocka_unit_test(two_flips_undo_each_other),
        cmocka_unit_test(IMG_12_a_resize_of_a_very_long_picture_is_a_pixel_budget_error_before_any_buffer),
        cmocka_unit_test(IMG_12_one_pixel_survives_every_op),
        cmocka_unit_test(a_picture_of_another_size_is_a_shape_mismatch_when_no_op_sets_the_size),
        cmocka_unit_test(every_box_lies_within_its_picture),
        cmocka_unit_test(
            LDR_04_no_two_samples_share_their_draws_and_no_sample_repeats_them_in_the_next_epoch),
    };
    return cmocka_run_group_tests_name("draws", tests, nullptr, nullptr);
}
