// A stream's layout: every tensor on a 256-byte border whatever its shape, nothing overlaps, everything lies
// within what is reserved, and sizes beyond four gigabytes are right.
#include <array>
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

Spec spec_of_items(std::vector<std::uint64_t> bytes, OrderPolicy policy, std::uint64_t collate = 0) {
    Spec spec;
    spec.kind = DatasetKind::kItems;
    spec.batch.size = 7;
    spec.order_policy = policy;
    for (std::uint64_t size : bytes)
        spec.items.rows.push_back({"row " + std::to_string(size), SL_SHM_UINT8, {size}});
    spec.items.collate_bytes = collate;
    spec.items.opaque = collate != 0;
    return spec;
}

void in_strict_order_guests_write_the_fields_that_lie_on_64_byte_borders(void**) {
    const StreamLayout layout = plan(spec_of_items({128, 100, 64}, OrderPolicy::kStrict), 5);
    const sl_shm_item_layout& items = layout.items;
    assert_true(layout.guests_write());
    assert_int_equal(items.in_place, 5);
    assert_true(items.slots_offset == layout.slots_offset && items.batch_bytes == layout.slot_bytes);
    assert_true(items.batch_slots == 5 && items.rows == 7 && items.collated_bytes == 0);
    for (std::uint32_t i = 0; i < 3; ++i)
        assert_true(items.row_offset[i] == layout.tensors[i].offset);
}

void where_rows_are_known_late_or_lie_on_no_border_guests_see_no_batch(void**) {
    assert_false(plan(spec_of_items({128}, OrderPolicy::kReady)).guests_write());
    assert_false(plan(spec_of_items({100, 8}, OrderPolicy::kStrict)).guests_write());
    assert_false(plan(spec_of({3, 7, 5}, 2)).guests_write());
}

void a_collated_batch_lies_beside_its_rows(void**) {
    for (const OrderPolicy policy : {OrderPolicy::kStrict, OrderPolicy::kReady}) {
        const StreamLayout layout = plan(spec_of_items({100}, policy, 70'000));
        const sl_shm_item_layout& items = layout.items;
        assert_true(layout.guests_write() && items.in_place == 0);
        const sl_shm_tensor& collated = layout.tensors.at(layout.collated_tensor());
        const sl_shm_tensor& bytes = layout.tensors.at(layout.collated_tensor() + 1);
        assert_string_equal(collated.name, "collated");
        assert_true(collated.ndim == 1 && collated.shape[0] == 70'000 && collated.bytes == 70'000);
        assert_string_equal(bytes.name, "collated_bytes");
        assert_true(bytes.dtype == SL_SHM_UINT64 && bytes.shape[0] == 1 && bytes.bytes == 8);
        assert_true(collated.flags == SL_SHM_TENSOR_WHOLE && bytes.flags == SL_SHM_TENSOR_WHOLE);
        assert_true(bytes.offset >= collated.offset + 70'000 && layout.slot_bytes >= bytes.offset + 8);
        assert_true(items.collated_offset == collated.offset && items.collated_bytes == 70'000);
        assert_true(items.lengths_offset == layout.tensors[1].offset);
        assert_true(items.valid_offset == layout.tensors[3].offset);
    }
}

void items_that_are_as_large_as_batches_have_few_slots_and_small_ones_some(void**) {
    Spec spec = spec_of_items({32 << 20}, OrderPolicy::kStrict);
    spec.batch.size = 1;
    using Lanes = std::array<std::uint32_t, kLanes>;
    assert_true((plan(spec).sample_slots.lanes == Lanes{2, 2, 2}));
    assert_true((plan_layout(spec, 0, 16)->sample_slots.lanes == Lanes{32, 2, 32}));
    spec.batch.size = 8;
    assert_true((plan(spec).sample_slots.lanes == Lanes{12, 4, 6}));
    spec = spec_of_items({1 << 20}, OrderPolicy::kStrict);
    spec.batch.size = 1;
    assert_true((plan(spec).sample_slots.lanes == Lanes{24, 8, 12}));
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
        cmocka_unit_test(in_strict_order_guests_write_the_fields_that_lie_on_64_byte_borders),
        cmocka_unit_test(where_rows_are_known_late_or_lie_on_no_border_guests_see_no_batch),
        cmocka_unit_test(a_collated_batch_lies_beside_its_rows),
        cmocka_unit_test(items_that_are_as_large_as_batches_have_few_slots_and_small_ones_some),
    };
    return cmocka_run_group_tests_name("stream/layout", tests, nullptr, nullptr);
}
