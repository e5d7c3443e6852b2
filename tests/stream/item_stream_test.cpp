// A stream of items from plan to batch, without the processes around it: every item once in its row, written
// there by its guest or copied, nobody's places zero and not valid, in both orders; what failed stands in the
// account, and the audit adds up.
#include <algorithm>
#include <cstring>

#include "tests/stream/item_run.h"

namespace sl {
namespace {

void a_task_is_keyed_by_its_item_and_the_data_sets_epoch(void**) {
    Run run(spec_of(3, 2, OrderPolicy::kStrict), {40, 7, 40});
    Task& task = run.plan_next();
    const DrawKey key = run.stream().key(task);
    assert_int_equal(task.sample_id, 0);
    assert_int_equal(key.sample_id, 40);
    assert_int_equal(key.epoch, 9);
    std::string path;
    run.stream().dataset().path(1, path);
    assert_string_equal(path.c_str(), "Set[7]");
}

void in_strict_order_each_row_is_the_planned_item_and_nobodys_are_zero(void**) {
    const std::vector<std::uint64_t> items = {40, 7, kNobody, kNobody, 40, 3, 0};
    Run run(spec_of(items.size(), 4, OrderPolicy::kStrict), items);
    run.deliver_backwards(items.size());
    for (std::uint32_t i = 0; i < items.size(); ++i) {
        const std::uint32_t batch = i / 4;
        const std::uint32_t row = i % 4;
        const bool nobody = items[i] == kNobody;
        const std::uint64_t* x = run.tensor<std::uint64_t>(batch, 0) + std::size_t{2} * row;
        assert_true(x[0] == (nobody ? 0 : items[i]));
        assert_true(x[1] == (nobody ? 0 : ~items[i]));
        assert_int_equal(run.tensor<std::uint8_t>(batch, 1)[row], nobody ? 0 : items[i]);
        assert_int_equal(run.tensor<std::uint64_t>(batch, 2)[row], i);
        assert_int_equal(run.tensor<std::uint8_t>(batch, 3)[row], nobody ? 0 : 1);
    }
    const EpochAccount account = run.account();
    assert_true(account.closed);
    assert_int_equal(account.planned, 5);
    assert_int_equal(account.delivered, 5);
    assert_int_equal(account.padding, 2);
    assert_int_equal(account.missing, 0);
    assert_false(run.stream().stopped());
}

void in_ready_order_each_batch_has_as_many_items_as_it_was_given(void**) {
    const std::vector<std::uint64_t> items = {11, kNobody, kNobody, 12, 13, 14, 15, kNobody, 16};
    Run run(spec_of(items.size(), 3, OrderPolicy::kReady), items);
    run.deliver_backwards(items.size());
    const std::uint32_t wanted[] = {1, 3, 2};
    std::vector<std::uint64_t> got;
    for (std::uint32_t batch = 0; batch < 3; ++batch) {
        for (std::uint32_t row = 0; row < 3; ++row) {
            const bool valid = run.tensor<std::uint8_t>(batch, 3)[row] != 0;
            assert_int_equal(valid, row < wanted[batch]);
            if (valid) got.push_back(run.tensor<std::uint64_t>(batch, 0)[2 * row]);
        }
    }
    std::ranges::sort(got);
    assert_true((got == std::vector<std::uint64_t>{11, 12, 13, 14, 15, 16}));
    assert_int_equal(run.account().delivered, 6);
    assert_int_equal(run.account().missing, 0);
    assert_false(run.stream().stopped());
}

void an_opaque_row_has_its_length_and_never_more_than_its_capacity(void**) {
    const std::vector<std::uint64_t> items = {5, 0, 4000, kNobody};
    Run run(spec_of(items.size(), 4, OrderPolicy::kStrict, true), items);
    run.deliver_backwards(items.size());
    const std::uint64_t lengths[] = {5, 0, 32, 0};
    for (std::uint32_t row = 0; row < 4; ++row) {
        assert_int_equal(run.tensor<std::uint64_t>(0, 1)[row], lengths[row]);
        for (std::uint64_t i = 0; i < lengths[row]; ++i)
            assert_int_equal(run.tensor<std::uint8_t>(0, 0)[32 * row + i],
                             static_cast<std::uint8_t>(items[row]));
    }
    assert_int_equal(run.tensor<std::uint8_t>(0, 3)[3], 0);
}

void a_substitute_is_never_nobody(void**) {
    Spec spec = spec_of(7, 2, OrderPolicy::kStrict);
    spec.error_policy = ErrorPolicy::kRefill;
    Run run(spec, {1, 2, kNobody, kNobody, 5, 6, kNobody});
    Task& task = run.plan_next();
    assert_true(run.stream().next_substitute(task));
    assert_int_equal(run.stream().key(task).sample_id, 5);
    assert_false(run.stream().next_substitute(task));
}

void a_text_is_bounded_by_the_slot_and_made_utf8(void**) {
    Run run(spec_of(1, 1, OrderPolicy::kStrict, true), {0});
    Task& task = run.plan_next();
    run.write(task);
    auto* slot = const_cast<std::uint8_t*>(run.stream().slots().data(task.slot));
    const std::string text("caf\xC3\xA9 \xFF \0 end", 13);
    std::memset(slot + 64, 'z', 192);
    std::memcpy(slot + 64, text.data(), text.size());
    auto* header = reinterpret_cast<sl_shm_item_header*>(slot);
    header->error_bytes = text.size();
    assert_string_equal(run.stream().item_text(task).c_str(), "caf\xC3\xA9 \xEF\xBF\xBD \xEF\xBF\xBD end");
    header->error_bytes = UINT64_MAX;
    assert_int_equal(run.stream().item_text(task).find(" end"), 13);
    assert_int_equal(run.stream().item_text(task).size(), 192 + 4);  // two bytes have become three each
    header->error_bytes = 0;
    assert_true(run.stream().item_text(task).empty());
}

void sixteen_fields_are_as_many_tensors_and_two(void**) {
    Spec spec = spec_of(2, 2, OrderPolicy::kStrict);
    spec.items.rows.clear();
    for (int i = 0; i < 16; ++i)
        spec.items.rows.push_back({"field " + std::to_string(i), SL_SHM_UINT8, {3}});
    Run run(spec, {0, 1});
    const auto& header = *reinterpret_cast<const sl_shm_batch_header*>(run.stream().ring().batches().data());
    assert_int_equal(header.tensor_count, SL_SHM_ALL_TENSORS);
    assert_string_equal(sl_shm_tensor_at(&header, 0)->name, "field 0");
    assert_string_equal(sl_shm_tensor_at(&header, 8)->name, "field 8");
    assert_string_equal(sl_shm_tensor_at(&header, 15)->name, "field 15");
    assert_string_equal(sl_shm_tensor_at(&header, 16)->name, "sample_id");
    assert_string_equal(sl_shm_tensor_at(&header, 17)->name, "valid");
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(a_task_is_keyed_by_its_item_and_the_data_sets_epoch),
        cmocka_unit_test(in_strict_order_each_row_is_the_planned_item_and_nobodys_are_zero),
        cmocka_unit_test(in_ready_order_each_batch_has_as_many_items_as_it_was_given),
        cmocka_unit_test(an_opaque_row_has_its_length_and_never_more_than_its_capacity),
        cmocka_unit_test(a_substitute_is_never_nobody),
        cmocka_unit_test(a_text_is_bounded_by_the_slot_and_made_utf8),
        cmocka_unit_test(sixteen_fields_are_as_many_tensors_and_two),
    };
    return cmocka_run_group_tests_name("stream/items", tests, nullptr, nullptr);
}
