// Rows of items that their guests write into the batch, and batches that guests collate, without the
// processes around them: what is written where, what is left to the daemon, and when a batch is published.
#include "tests/stream/item_run.h"

namespace sl {
namespace {

void a_row_is_written_in_place_once_its_batch_is_open(void**) {
    const std::vector<std::uint64_t> items = {40, 7, kNobody, kNobody, 40, 3, 0};
    Run run(placed_spec_of(items.size(), 4), items);
    Task& early = run.plan_next();
    assert_int_equal(run.stream().place_ahead(early).kind, SL_SHM_PLACE_NONE);
    run.write(early);
    run.place(early);  // copied as ever
    assert_int_equal(run.in_place(), 0);
    run.deliver_backwards(items.size() - 1);
    assert_int_equal(run.in_place(), 4);
    for (std::uint32_t i = 0; i < items.size(); ++i) {
        const bool nobody = items[i] == kNobody;
        const std::uint64_t* x = run.tensor<std::uint64_t>(i / 4, 0) + std::size_t{16} * (i % 4);
        assert_true(x[0] == (nobody ? 0 : items[i]) && x[1] == (nobody ? 0 : ~items[i]));
        assert_int_equal(run.tensor<std::uint8_t>(i / 4, 1)[i % 4], nobody ? 0 : items[i]);
        assert_int_equal(run.tensor<std::uint64_t>(i / 4, 2)[i % 4], i);
        assert_int_equal(run.tensor<std::uint8_t>(i / 4, 3)[i % 4], nobody ? 0 : 1);
        assert_true(run.stream().ring().info(i / 4, i % 4)->sample_id == i);
    }
    assert_int_equal(run.account().delivered, 5);
    assert_true(run.account().closed);
}

void an_item_that_failed_in_its_row_leaves_zeros(void**) {
    Run run(placed_spec_of(2, 2), {8, 9});
    run.stream().open_outputs();
    Task& task = run.plan_next();
    run.write(task);
    assert_true(task.in_place);
    task.in_place = false;
    task.placeholder = true;
    run.place(task);
    const std::uint64_t* x = run.tensor<std::uint64_t>(0, 0);
    assert_true(std::ranges::all_of(x, x + 16, [](std::uint64_t word) { return word == 0; }));
    assert_int_equal(run.tensor<std::uint8_t>(0, 3)[0], 0);
}

void in_ready_order_no_row_is_known_before_its_item_is_there(void**) {
    Run run(placed_spec_of(2, 2, OrderPolicy::kReady), {8, 9});
    run.stream().open_outputs();
    assert_int_equal(run.stream().place_ahead(run.plan_next()).kind, SL_SHM_PLACE_NONE);
}

void a_long_rest_of_a_row_is_left_to_the_assembler(void**) {
    Spec spec = placed_spec_of(2, 2);
    spec.items.rows[1].shape = {5001};
    Run run(spec, {8, 9});
    run.stream().open_outputs();
    Task& task = run.plan_next();
    run.write(task);
    assert_true(task.in_place && !run.stream().is_all_but_written(task));
    run.place(task);
    assert_true(run.tensor<std::uint64_t>(0, 0)[1] == ~std::uint64_t{8});
    assert_int_equal(run.tensor<std::uint8_t>(0, 1)[0], 8);
    assert_int_equal(run.tensor<std::uint8_t>(0, 1)[5000], 0xEE);
}

void an_opaque_row_in_place_has_its_length_too(void**) {
    Spec spec = spec_of(2, 2, OrderPolicy::kStrict, true);
    spec.items.rows[0].shape = {64};
    Run run(spec, {5, 4000});
    run.stream().open_outputs();
    run.deliver_backwards(2);
    assert_int_equal(run.in_place(), 2);
    assert_int_equal(run.tensor<std::uint64_t>(0, 1)[0], 5);
    assert_int_equal(run.tensor<std::uint64_t>(0, 1)[1], 64);
    assert_int_equal(run.tensor<std::uint8_t>(0, 0)[4], 5);
}

void a_batch_is_published_when_it_is_collated_and_in_order(void**) {
    Spec spec = spec_of(5, 2, OrderPolicy::kStrict, true);
    spec.items.collate_bytes = 10;
    Run run(spec, {5, 6, 7, 8, kNobody});
    Stream& stream = run.stream();
    run.deliver_backwards(5);
    assert_int_equal(run.account().delivered, 0);
    Task first;
    Task second;
    stream.begin_collating(first);
    stream.begin_collating(second);
    assert_false(stream.wants_collating());  // the last one has nothing but nobody's row
    assert_true(first.batch == 0 && first.sample_id == 0 && second.batch == 1 && second.sample_id == 2);
    const sl_shm_job job = stream.collate_job(second, 77);
    assert_true(job.tag == 77 && job.place.kind == SL_SHM_PLACE_COLLATE && job.place.row == 2);
    assert_true(job.sample_id == 1 && job.epoch == 9 && job.output_offset == SL_SHM_NO_OUTPUT);
    stream.collated(second, UINT64_MAX);  // as long as nobody believes
    stream.publish();
    assert_int_equal(run.account().delivered, 0);
    stream.collate_again(first);
    assert_true(stream.wants_collating());
    Task again;
    stream.begin_collating(again);
    assert_int_equal(again.batch, 0);
    stream.collated(again, 3);
    stream.publish();
    assert_int_equal(run.account().delivered, 4);
    assert_true(run.account().closed && !stream.stopped());
    const std::size_t lengths = stream.ring().layout().collated_tensor() + 1;
    assert_int_equal(*run.tensor<std::uint64_t>(0, lengths), 3);
    assert_int_equal(*run.tensor<std::uint64_t>(1, lengths), 10);
    assert_int_equal(*run.tensor<std::uint64_t>(2, lengths), 0);
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(a_row_is_written_in_place_once_its_batch_is_open),
        cmocka_unit_test(an_item_that_failed_in_its_row_leaves_zeros),
        cmocka_unit_test(in_ready_order_no_row_is_known_before_its_item_is_there),
        cmocka_unit_test(a_long_rest_of_a_row_is_left_to_the_assembler),
        cmocka_unit_test(an_opaque_row_in_place_has_its_length_too),
        cmocka_unit_test(a_batch_is_published_when_it_is_collated_and_in_order),
    };
    return cmocka_run_group_tests_name("stream/item_rows", tests, nullptr, nullptr);
}
