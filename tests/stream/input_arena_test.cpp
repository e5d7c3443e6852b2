// The input arena: buffers never overlap, freed neighbours grow together again, and the memory is read-only
// for whoever gets its descriptor.
#include "daemon/pool/input_arena.h"

#include <sys/mman.h>

#include <map>
#include <random>
#include <vector>

#include "tests/cmocka_cpp.h"

namespace sl {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kPages = 64;

InputArena make_arena(std::uint64_t pages = kPages) {
    auto arena = InputArena::create(pages * kPage);
    if (!arena) fail_msg("%s", arena.error().message.c_str());
    return std::move(*arena);
}

std::uint64_t pages_of(std::uint64_t bytes) {
    return bytes == 0 ? 1 : (bytes + kPage - 1) / kPage;
}

// A page map in plain sight: which buffer, if any, holds each page.
class Model {
  public:
    explicit Model(std::uint64_t pages) : taken_(pages, false) {}
    [[nodiscard]] bool has_run(std::uint64_t pages) const {
        std::uint64_t run = 0;
        for (bool taken : taken_) {
            run = taken ? 0 : run + 1;
            if (run == pages) return true;
        }
        return false;
    }
    // False if a page was not in the other state.
    bool set(std::uint64_t offset, std::uint64_t pages, bool taken) {
        for (std::uint64_t page = offset / kPage; page < offset / kPage + pages; ++page) {
            if (page >= taken_.size() || taken_[page] == taken) return false;
            taken_[page] = taken;
        }
        return true;
    }
    [[nodiscard]] std::uint64_t used() const {
        std::uint64_t count = 0;
        for (bool taken : taken_)
            count += taken ? 1 : 0;
        return count;
    }

  private:
    std::vector<bool> taken_;
};

void random_use_agrees_with_a_map_of_pages(void**) {
    InputArena arena = make_arena();
    Model model(kPages);
    std::mt19937 random(2);
    std::vector<std::pair<std::uint64_t, std::uint64_t>> held;
    std::uint64_t refused = 0;
    for (int step = 0; step < 200'000; ++step) {
        if (random() % 2 == 0) {
            const std::uint64_t bytes = random() % (16 * kPage);
            const auto offset = arena.allocate(bytes);
            assert_int_equal(offset.has_value(), model.has_run(pages_of(bytes)));
            refused += offset ? 0 : 1;
            if (!offset) continue;
            assert_true(*offset % kPage == 0);
            assert_true(model.set(*offset, pages_of(bytes), true));
            held.emplace_back(*offset, bytes);
        } else if (!held.empty()) {
            const std::size_t index = random() % held.size();
            const auto [offset, bytes] = held[index];
            arena.release(offset, bytes);
            assert_true(model.set(offset, pages_of(bytes), false));
            held[index] = held.back();
            held.pop_back();
        }
        assert_true(arena.used() == model.used() * kPage);
    }
    assert_true(refused > 1000);  // else it was never full
}

void freed_neighbours_grow_together_in_any_order(void**) {
    const std::vector<std::vector<int>> orders = {
        {0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}, {0, 2, 1, 3}, {2, 0, 3, 1}};
    for (const auto& order : orders) {
        InputArena arena = make_arena(4);
        for (std::uint64_t i = 0; i < 4; ++i)
            assert_true(*arena.allocate(kPage) == i * kPage);
        for (int page : order) {
            assert_false(arena.allocate(4 * kPage).has_value());
            arena.release(static_cast<std::uint64_t>(page) * kPage, kPage);
        }
        assert_true(arena.used() == 0);
        assert_true(arena.allocate(4 * kPage).has_value());
    }
}

void an_empty_file_still_gets_a_place_of_its_own(void**) {
    InputArena arena = make_arena(2);
    const auto first = arena.allocate(0);
    const auto second = arena.allocate(0);
    assert_true(first.has_value() && second.has_value() && *first != *second);
    assert_false(arena.allocate(0).has_value());
    arena.release(*first, 0);
    arena.release(*second, 0);
    assert_true(arena.used() == 0);
}

void more_than_the_arena_holds_is_refused_and_changes_nothing(void**) {
    InputArena arena = make_arena();
    for (std::uint64_t bytes : {kPages * kPage + 1, std::uint64_t{1} << 40}) {
        assert_false(arena.allocate(bytes).has_value());
    }
    assert_true(arena.used() == 0);
    assert_true(*arena.allocate(kPages * kPage) == 0);
}

void sizes_near_the_end_of_the_number_line_are_refused(void**) {
    InputArena arena = make_arena();
    for (std::uint64_t less = 0; less < 2 * kPage; less += 512) {
        assert_false(arena.allocate(~std::uint64_t{0} - less).has_value());
    }
}

void workers_get_it_read_only(void**) {
    InputArena arena = make_arena();
    auto fd = arena.segment().read_only_fd();
    assert_true(fd.has_value());
    for (int descriptor : {fd->get(), arena.segment().writable_fd()}) {
        void* map = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
        assert_true(map == MAP_FAILED);
    }
    *arena.at(5 * kPage) = std::byte{9};
    auto map = Mapping::map(fd->get(), arena.capacity(), Access::kReadOnly);
    assert_true(map.has_value() && map->data()[5 * kPage] == std::byte{9});
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(random_use_agrees_with_a_map_of_pages),
        cmocka_unit_test(freed_neighbours_grow_together_in_any_order),
        cmocka_unit_test(an_empty_file_still_gets_a_place_of_its_own),
        cmocka_unit_test(more_than_the_arena_holds_is_refused_and_changes_nothing),
        cmocka_unit_test(sizes_near_the_end_of_the_number_line_are_refused),
        cmocka_unit_test(workers_get_it_read_only),
    };
    return cmocka_run_group_tests_name("stream/input arena", tests, nullptr, nullptr);
}
