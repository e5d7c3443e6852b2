// A stream's layout: every tensor on a 256-byte border whatever its shape, nothing overlaps, everything lies
// within what is reserved, and sizes beyond four gigabytes are right.
#include <bit>
#include <cstring>
#include <string>

#include "daemon/stream/stream_layout.h"
#include "tests/cmocka_cpp.h"

namespace sl {
namespace {

struct Shape {
    std::uint32_t channels;
    std::uint32_t height;
    std::uint32_t width;
};

constexpr Shape kShapes[] = {{3, 7, 5}, {1, 1, 1}, {3, 224, 224}, {4, 3, 129}, {3, 1, 7}, {1, 255, 257}};
constexpr Dtype kDtypes[] = {Dtype::kFloat32, Dtype::kFloat16, Dtype::kBfloat16, Dtype::kUint8};
constexpr std::uint64_t kElement[] = {4, 2, 2, 1};

Spec spec_of(const Shape& shape, std::uint32_t batch, Dtype dtype = Dtype::kFloat32) {
    Spec spec;
    spec.batch.size = batch;
    spec.dtype = dtype;
    spec.pipeline.channels = shape.channels;
    spec.pipeline.height = shape.height;
    spec.pipeline.width = shape.width;
    return spec;
}

StreamLayout plan(const Spec& spec, std::uint32_t slots = 0) {
    auto layout = plan_layout(spec, slots);
    if (!layout) fail_msg("%s", layout.error().message.c_str());
    return *layout;
}

template <class Check>
void for_many_specs(Check check) {
    for (const Shape& shape : kShapes) {
        for (Dtype dtype : kDtypes) {
            for (std::uint32_t batch : {1U, 3U, 7U, 64U}) {
                for (bool explain : {false, true}) {
                    Spec spec = spec_of(shape, batch, dtype);
                    spec.explain = explain;
                    for (std::uint32_t slots : {0U, 1U, 5U, 256U})
                        check(spec, plan(spec, slots));
                }
            }
        }
    }
}

void LDR_17_every_tensor_of_every_slot_lies_on_a_256_byte_border(void**) {
    for_many_specs([](const Spec&, const StreamLayout& layout) {
        for (std::uint32_t slot = 0; slot < layout.slot_count; ++slot) {
            for (const sl_shm_tensor& tensor : layout.tensors) {
                assert_true((layout.slots_offset + slot * layout.slot_bytes + tensor.offset) % 256 == 0);
            }
        }
        assert_true(layout.slots_offset % SL_SHM_PAGE == 0 && layout.slot_bytes % SL_SHM_PAGE == 0);
    });
}

void tensors_do_not_overlap_and_fit_their_slot(void**) {
    for_many_specs([](const Spec&, const StreamLayout& layout) {
        std::uint64_t end = 0;
        for (const sl_shm_tensor& tensor : layout.tensors) {
            assert_true(tensor.offset >= end);
            end = tensor.offset + tensor.bytes;
        }
        assert_true(end <= layout.slot_bytes);
    });
}

void the_parts_of_the_segment_do_not_overlap_and_fit_it(void**) {
    for_many_specs([](const Spec& spec, const StreamLayout& layout) {
        assert_true(layout.ring_offset >= SL_SHM_HEADER_BYTES && layout.ring_offset % 64 == 0);
        assert_true(layout.words_offset >=
                    layout.ring_offset + layout.ring_capacity * sizeof(sl_shm_descriptor));
        assert_true(layout.words_offset % 8 == 0);
        assert_true(layout.info_offset >= layout.words_offset + layout.slot_count * 8 &&
                    layout.info_offset % 8 == 0);
        const std::uint64_t infos =
            std::uint64_t{layout.slot_count} * spec.batch.size * sizeof(sl_shm_sample_info);
        assert_true(layout.slots_offset >= layout.info_offset + infos);
        assert_true(layout.segment_bytes >= layout.slots_offset + layout.slot_count * layout.slot_bytes);
    });
}

void tensors_have_the_shape_and_the_bytes_that_the_spec_says(void**) {
    for (std::size_t d = 0; d < std::size(kDtypes); ++d) {
        for (bool nchw : {true, false}) {
            Spec spec = spec_of({3, 7, 5}, 9, kDtypes[d]);
            spec.layout = nchw ? Layout::kNchw : Layout::kNhwc;
            const StreamLayout layout = plan(spec);
            const sl_shm_tensor& image = layout.tensors[0];
            assert_string_equal(image.name, "image");
            assert_int_equal(image.dtype, static_cast<std::uint32_t>(kDtypes[d]));
            assert_int_equal(image.ndim, 4);
            const std::int64_t wanted[4] = {9, nchw ? 3 : 7, nchw ? 7 : 5, nchw ? 5 : 3};
            assert_memory_equal(image.shape, wanted, sizeof wanted);
            assert_true(image.bytes == 9 * 105 * kElement[d]);
            assert_true(layout.image_row_bytes == 105 * kElement[d]);
        }
    }
}

void the_small_tensors_are_there_and_the_draws_only_if_asked_for(void**) {
    Spec spec = spec_of({3, 7, 5}, 9);
    const StreamLayout plain = plan(spec);
    assert_int_equal(plain.tensors.size(), 4);
    spec.explain = true;
    const StreamLayout full = plan(spec);
    struct {
        const char* name;
        std::uint32_t dtype;
        std::uint64_t bytes;
    } const wanted[] = {{"image", SL_SHM_FLOAT32, 3780},  {"label", SL_SHM_INT64, 72},
                        {"sample_id", SL_SHM_UINT64, 72}, {"valid", SL_SHM_UINT8, 9},
                        {"crop_box", SL_SHM_INT32, 144},  {"flip", SL_SHM_UINT8, 9}};
    assert_int_equal(full.tensors.size(), std::size(wanted));
    for (std::size_t i = 0; i < std::size(wanted); ++i) {
        assert_string_equal(full.tensors[i].name, wanted[i].name);
        assert_int_equal(full.tensors[i].dtype, wanted[i].dtype);
        assert_true(full.tensors[i].bytes == wanted[i].bytes);
        assert_int_equal(full.tensors[i].shape[0], 9);
    }
}

void the_ring_holds_more_than_an_unread_stream_can_publish(void**) {
    for (std::uint32_t slots = 1; slots <= SL_SHM_MAX_SLOTS; ++slots) {
        const StreamLayout layout = plan(spec_of({3, 7, 5}, 2), slots);
        assert_int_equal(layout.slot_count, slots);
        assert_true(std::has_single_bit(layout.ring_capacity));
        assert_true(layout.ring_capacity > 2 * slots + 2);
    }
}

void more_slots_than_there_may_be_are_refused_with_both_numbers(void**) {
    auto layout = plan_layout(spec_of({3, 7, 5}, 2), SL_SHM_MAX_SLOTS + 1);
    assert_false(layout.has_value());
    assert_true(layout.error().status == Status::kInvalidArgument);
    assert_non_null(std::strstr(layout.error().message.c_str(), "257"));
    assert_non_null(std::strstr(layout.error().message.c_str(), "256"));
}

void a_batch_of_more_than_four_gigabytes_is_counted_right(void**) {
    const StreamLayout layout = plan(spec_of({3, 4096, 4096}, 64), 4);
    const std::uint64_t image = 64ULL * 3 * 4096 * 4096 * 4;
    assert_true(layout.tensors[0].bytes == image);
    assert_true(layout.tensors[1].offset == image);
    assert_true(layout.slot_bytes > image);
    assert_true(layout.segment_bytes > 4 * image);
    assert_true(layout.sample_slot_bytes == 3ULL * 4096 * 4096);
    assert_true(layout.sample_segment_bytes() == layout.sample_slots.total() * layout.sample_slot_bytes);
    assert_true(layout.sample_segment_bytes() > 1ULL << 32);
}

void sample_slots_lie_on_256_byte_borders_and_hold_a_sample(void**) {
    for_many_specs([](const Spec& spec, const StreamLayout& layout) {
        assert_true(layout.sample_slot_bytes % 256 == 0);
        assert_true(layout.sample_slot_bytes >= spec.pipeline.sample_bytes());
        assert_int_equal(layout.sample_slots.reserve, spec.batch.size);
        assert_true(layout.sample_slots.lanes[0] >= spec.batch.size);
        for (std::uint32_t lane : layout.sample_slots.lanes)
            assert_true(lane >= 8 && lane >= spec.batch.size / 2);
    });
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(LDR_17_every_tensor_of_every_slot_lies_on_a_256_byte_border),
        cmocka_unit_test(tensors_do_not_overlap_and_fit_their_slot),
        cmocka_unit_test(the_parts_of_the_segment_do_not_overlap_and_fit_it),
        cmocka_unit_test(tensors_have_the_shape_and_the_bytes_that_the_spec_says),
        cmocka_unit_test(the_small_tensors_are_there_and_the_draws_only_if_asked_for),
        cmocka_unit_test(the_ring_holds_more_than_an_unread_stream_can_publish),
        cmocka_unit_test(more_slots_than_there_may_be_are_refused_with_both_numbers),
        cmocka_unit_test(a_batch_of_more_than_four_gigabytes_is_counted_right),
        cmocka_unit_test(sample_slots_lie_on_256_byte_borders_and_hold_a_sample),
    };
    return cmocka_run_group_tests_name("stream/layout", tests, nullptr, nullptr);
}
