// The task table: a tag names one task for as long as it lives and nobody afterwards.
#include <random>
#include <set>
#include <string>
#include <vector>

#include "daemon/stream/task.h"
#include "tests/cmocka_cpp.h"

namespace sl {
namespace {

Task& open_task(TaskTable& table) {
    Task& task = table.allocate();
    task.state = TaskState::kOpening;
    return task;
}

void a_tag_finds_its_task_while_it_lives(void**) {
    TaskTable table;
    std::vector<std::uint64_t> tags;
    for (int i = 0; i < 1000; ++i) {
        Task& task = open_task(table);
        task.sample_id = static_cast<std::uint64_t>(i);
        tags.push_back(TaskTable::tag(task));
    }
    for (std::size_t i = 0; i < tags.size(); ++i) {
        Task* task = table.find(tags[i]);
        assert_non_null(task);
        assert_true(task->sample_id == i);
    }
}

void a_late_tag_finds_nobody_even_when_its_place_is_used_again(void**) {
    TaskTable table;
    std::vector<std::uint64_t> late;
    for (int i = 0; i < 100; ++i) {
        Task& task = open_task(table);
        assert_int_equal(task.index, 0);  // the same place each time
        late.push_back(TaskTable::tag(task));
        for (std::size_t j = 0; j + 1 < late.size(); ++j)
            assert_null(table.find(late[j]));
        assert_true(table.find(late.back()) == &task);
        table.release(task);
        assert_null(table.find(late.back()));
    }
}

void a_tag_that_was_never_given_finds_nobody(void**) {
    TaskTable table;
    assert_null(table.find(0));
    Task& task = open_task(table);
    for (std::uint64_t tag :
         {std::uint64_t{1}, std::uint64_t{1} << 32, ~std::uint64_t{0}, std::uint64_t{0xffffffff}}) {
        assert_null(table.find(tag));
    }
    assert_true(table.find(TaskTable::tag(task)) == &task);
}

void a_reused_place_starts_afresh(void**) {
    TaskTable table;
    Task& task = open_task(table);
    task.sample_id = 5;
    task.crashes = 2;
    task.path = "old";
    task.has_slot = task.has_input = task.placeholder = true;
    table.release(task);
    Task& again = table.allocate();
    assert_true(again.sample_id == 0 && again.crashes == 0 && again.path.empty());
    assert_true(!again.has_slot && !again.has_input && !again.placeholder && again.fd == -1);
    assert_true(again.state == TaskState::kFree);
}

void addresses_stay_good_while_the_table_grows(void**) {
    TaskTable table;
    Task& first = open_task(table);
    first.sample_id = 77;
    for (int i = 0; i < 100'000; ++i)
        open_task(table);
    assert_true(&table.at(0) == &first);
    assert_true(first.sample_id == 77);
}

void only_the_living_tasks_of_a_stream_are_its_own(void**) {
    TaskTable table;
    char places[2];  // two addresses; a task only compares them
    auto* mine = reinterpret_cast<Stream*>(&places[0]);
    auto* theirs = reinterpret_cast<Stream*>(&places[1]);
    std::vector<Task*> all;
    for (int i = 0; i < 10; ++i) {
        all.push_back(&open_task(table));
        all.back()->stream = i % 2 == 0 ? mine : theirs;
    }
    table.release(*all[0]);
    assert_int_equal(table.of(mine).size(), 4);
    assert_int_equal(table.of(theirs).size(), 5);
    assert_true(table.of(nullptr).empty());
}

void random_use_gives_no_tag_twice(void**) {
    TaskTable table;
    std::mt19937 random(1);
    std::set<std::uint64_t> ever;
    std::vector<std::uint64_t> living;
    for (int step = 0; step < 50'000; ++step) {
        if (random() % 2 == 0) {
            living.push_back(TaskTable::tag(open_task(table)));
            assert_true(ever.insert(living.back()).second);
        } else if (!living.empty()) {
            const std::size_t index = random() % living.size();
            Task* task = table.find(living[index]);
            assert_non_null(task);
            table.release(*task);
            living[index] = living.back();
            living.pop_back();
        }
    }
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(a_tag_finds_its_task_while_it_lives),
        cmocka_unit_test(a_late_tag_finds_nobody_even_when_its_place_is_used_again),
        cmocka_unit_test(a_tag_that_was_never_given_finds_nobody),
        cmocka_unit_test(a_reused_place_starts_afresh),
        cmocka_unit_test(addresses_stay_good_while_the_table_grows),
        cmocka_unit_test(only_the_living_tasks_of_a_stream_are_its_own),
        cmocka_unit_test(random_use_gives_no_tag_twice),
    };
    return cmocka_run_group_tests_name("stream/tasks", tests, nullptr, nullptr);
}
