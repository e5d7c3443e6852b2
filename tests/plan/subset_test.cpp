// A subset is the same samples always, in the order of the ids, and says so in its fingerprint; what cannot
// be selected is refused with its key.
#include "daemon/plan/subset.h"

#include "tests/plan/spec_documents.h"

namespace sl {
namespace {

using Ids = std::vector<std::uint64_t>;

Ids ids_of(const Selection& selection) {
    Ids ids;
    for (std::uint64_t index = 0; index < selection.size(); ++index)
        ids.push_back(selection.id_at(index));
    return ids;
}

Json with_subset(const char* subset) {
    Json document = minimal();
    document["dataset"]["subset"] = Json::parse(subset);
    return document;
}

// Ascending, below n, and the inverse of index_of.
void assert_sound(const Selection& selection, std::uint64_t n) {
    std::uint64_t index = 0;
    for (std::uint64_t id = 0; id < n; ++id) {
        const auto found = selection.index_of(id);
        if (!found) continue;
        assert_int_equal(*found, index);
        assert_int_equal(selection.id_at(index), id);
        ++index;
    }
    assert_int_equal(index, selection.size());
    assert_false(selection.index_of(n).has_value());
    assert_false(selection.index_of(UINT64_MAX).has_value());
}

void a_fraction_of_any_size_is_that_many_ids_each_once_in_ascending_order(void**) {
    for (std::uint64_t n = 1; n <= 200; ++n) {
        for (std::uint64_t m = 1; m <= n; ++m) {
            const auto part = Selection::of_fraction(n, static_cast<double>(m) / static_cast<double>(n));
            assert_int_equal(part->size(), m);
            assert_sound(*part, n);
        }
    }
}

void a_fraction_takes_its_share_of_every_stretch_of_ids(void**) {
    const auto part = Selection::of_fraction(10000, 0.1);
    assert_int_equal(part->size(), 1000);
    for (std::uint64_t first = 0; first < 10000; first += 250) {  // as classes of 250 samples would lie
        std::uint64_t share = 0;
        for (std::uint64_t id = first; id < first + 250; ++id)
            share += part->index_of(id).has_value() ? 1 : 0;
        assert_true(share >= 24 && share <= 26);
    }
}

// Written down once: a change here changes which samples a tenth of a dataset is.
void a_fraction_is_the_same_samples_always(void**) {
    const Ids known{0, 6, 10, 15, 16, 23, 26, 29, 33, 39};
    assert_true(ids_of(*Selection::of_fraction(40, 0.25)) == known);
}

void the_largest_fraction_does_not_overflow(void**) {
    constexpr std::uint64_t kN = 1ULL << 62;
    const auto part = Selection::of_fraction(kN, 0.75);
    for (const std::uint64_t index : {std::uint64_t{0}, std::uint64_t{12345}, part->size() - 1})
        assert_int_equal(*part->index_of(part->id_at(index)), index);
    assert_true(part->id_at(part->size() - 1) < kN);
}

void ids_and_runs_select_just_these(void**) {
    const Ids wanted{0, 3, 4, 5, 9};
    const auto picked = Selection::of_ids(10, wanted);
    assert_true(ids_of(*picked) == wanted);
    assert_sound(*picked, 10);
    assert_sound(*Selection::of_ids(20, wanted), 20);
    const Selection runs = Selection::of_runs(10, {{0, 1}, {3, 3}, {9, 1}});
    assert_true(ids_of(runs) == wanted);
    assert_int_equal(runs.fingerprint(7), picked->fingerprint(7));
    const Selection touching = Selection::of_runs(10, {{0, 1}, {3, 2}, {5, 1}, {9, 1}});
    assert_true(ids_of(touching) == wanted);
    assert_sound(touching, 10);
    assert_int_equal(touching.fingerprint(7), picked->fingerprint(7));
    assert_sound(Selection(10), 10);
}

void each_selection_has_its_own_fingerprint_and_all_of_it_the_datasets(void**) {
    const std::uint64_t dataset = 0x0123456789abcdef;
    assert_int_equal(Selection(40).fingerprint(dataset), dataset);
    assert_int_equal(Selection::of_fraction(40, 1.0)->fingerprint(dataset), dataset);
    assert_int_equal(Selection::of_runs(40, {{0, 20}, {20, 20}}).fingerprint(dataset), dataset);
    const std::vector<std::uint64_t> all{
        dataset,
        Selection::of_fraction(40, 0.25)->fingerprint(dataset),
        Selection::of_fraction(40, 0.5)->fingerprint(dataset),
        Selection::of_fraction(40, 0.25)->fingerprint(dataset + 1),
        Selection::of_ids(40, {1, 2, 3})->fingerprint(dataset),
        Selection::of_ids(40, {1, 2, 4})->fingerprint(dataset),
        Selection::of_ids(40, {2, 3, 4})->fingerprint(dataset),
    };
    for (std::size_t a = 0; a < all.size(); ++a) {
        for (std::size_t b = 0; b < a; ++b)
            assert_int_not_equal(all[a], all[b]);
    }
}

void what_selects_nothing_or_more_than_there_is_is_refused_with_its_key(void**) {
    const auto none = Selection::of_fraction(12, 0.01);
    assert_string_equal(none.error().message.c_str(),
                        "dataset.subset.fraction is 0.01, which is none of 12 samples");
    const auto beyond = Selection::of_ids(12, {3, 12});
    assert_string_equal(beyond.error().message.c_str(),
                        "dataset.subset.ids has 12, allowed: less than the dataset's samples, 12");
    assert_true(none.error().status == Status::kSpec && beyond.error().status == Status::kSpec);
}

void a_spec_with_a_subset_is_read_and_written_back(void**) {
    assert_true(accepted(minimal()).parts.front().subset == Subset{});
    const Spec part = accepted(with_subset(R"({"fraction": 0.1})"));
    assert_true(part.parts.front().subset.kind == SubsetKind::kFraction &&
                part.parts.front().subset.fraction == 0.1);
    const Spec picked = accepted(with_subset(R"({"ids": [7, 3, 5]})"));
    assert_true((picked.parts.front().subset.ids == Ids{3, 5, 7}));
    const Spec classes = accepted(with_subset(R"({"labels": ["cat", 3]})"));
    assert_true((classes.parts.front().subset.labels == std::vector<Subset::Label>{"cat", std::uint64_t{3}}));
    for (const Spec& spec : {part, picked, classes})
        assert_true(accepted(Json::parse(to_json(spec))) == spec);
    assert_true(to_json(accepted(minimal())).find("subset") == std::string::npos);
}

void a_subset_that_is_none_is_refused_with_its_key(void**) {
    constexpr struct {
        const char *subset, *message;
    } kCases[] = {
        {"0.1", "dataset.subset is 0.1, allowed: an object with the keys fraction, ids, labels"},
        {"{}", "dataset.subset has 0 keys, allowed: one of fraction, ids, labels"},
        {R"({"fraction": 0.1, "ids": [1]})",
         "dataset.subset has 2 keys, allowed: one of fraction, ids, labels"},
        {R"({"first": 10})", "dataset.subset.first is not a known key; known: fraction, ids, labels"},
        {R"({"fraction": 0})", "dataset.subset.fraction is 0, allowed: a number above 0 and at most 1"},
        {R"({"fraction": 1.5})", "dataset.subset.fraction is 1.5, allowed: a number above 0 and at most 1"},
        {R"({"fraction": "half"})",
         "dataset.subset.fraction is \"half\", allowed: a number above 0 and at most 1"},
        {R"({"ids": []})",
         "dataset.subset.ids is an array of 0, allowed: an array of sample ids, at least one"},
        {R"({"ids": [1, -1]})",
         "dataset.subset.ids is an array of 2, allowed: an array of sample ids, at least one"},
        {R"({"ids": [4, 2, 4]})", "dataset.subset.ids has 4 twice, allowed: each id once"},
        {R"({"labels": []})",
         "dataset.subset.labels is an array of 0, allowed: an array of class names or labels, at least one"},
        {R"({"labels": [1.5]})",
         "dataset.subset.labels is an array of 1, allowed: an array of class names or labels, at least one"},
    };
    for (const auto& [subset, message] : kCases)
        assert_refused(with_subset(subset), message);
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(a_fraction_of_any_size_is_that_many_ids_each_once_in_ascending_order),
        cmocka_unit_test(a_fraction_takes_its_share_of_every_stretch_of_ids),
        cmocka_unit_test(a_fraction_is_the_same_samples_always),
        cmocka_unit_test(the_largest_fraction_does_not_overflow),
        cmocka_unit_test(ids_and_runs_select_just_these),
        cmocka_unit_test(each_selection_has_its_own_fingerprint_and_all_of_it_the_datasets),
        cmocka_unit_test(what_selects_nothing_or_more_than_there_is_is_refused_with_its_key),
        cmocka_unit_test(a_spec_with_a_subset_is_read_and_written_back),
        cmocka_unit_test(a_subset_that_is_none_is_refused_with_its_key),
    };
    return cmocka_run_group_tests_name("subset", tests, nullptr, nullptr);
}
