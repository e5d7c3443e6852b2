// A spec with a mix is read as written and survives its own document; what is wrong in it is refused with the
// part that it is in.
#include "tests/plan/spec_documents.h"

namespace sl {
namespace {

Json mix() {
    Json document = full();
    document["dataset"] = Json::parse(R"({"kind": "mix", "weights": [3, 0.1], "max_pixels": 1000000,
        "parts": [{"kind": "image_folder", "path": "/data/a"},
                  {"path": "/data/b", "subset": {"labels": ["cat", 3]}}]})");
    return document;
}

Json changed_mix(const char* pointer, const char* value) {
    Json document = mix();
    document[Json::json_pointer("/dataset" + std::string(pointer))] = Json::parse(value);
    return document;
}

void a_mix_is_read_as_written(void**) {
    const Spec spec = accepted(mix());
    assert_true(spec.kind == DatasetKind::kMix);
    assert_int_equal(spec.parts.size(), 2);
    assert_string_equal(spec.parts[0].path.c_str(), "/data/a");
    assert_true(spec.parts[0].subset == Subset{});
    assert_true((spec.parts[1].subset.labels == std::vector<Subset::Label>{"cat", std::uint64_t{3}}));
    assert_true((spec.weights == std::vector<double>{3, 0.1}));
    assert_int_equal(spec.pipeline.max_pixels, 1000000);
    assert_string_equal(dataset_name(spec).c_str(), "/data/a + /data/b");
}

void a_mix_survives_a_round_trip_through_its_document(void**) {
    for (const Json& document : {mix(), changed_mix("/weights", "[1e-300, 0.3333333333333333]"),
                                 changed_mix("/parts/1/subset", R"({"fraction": 0.1})"),
                                 changed_mix("/parts/0/subset", R"({"ids": [5, 2]})")}) {
        const Spec spec = accepted(document);
        const auto again = parse_spec(to_json(spec));
        assert_true(again.has_value());
        assert_true(*again == spec);
    }
    Json unweighted = mix();
    unweighted["dataset"].erase("weights");
    assert_true(accepted(unweighted).weights.empty());
    assert_true(*parse_spec(to_json(accepted(unweighted))) == accepted(unweighted));
    assert_false(accepted(unweighted) == accepted(mix()));
}

void one_to_64_parts_are_allowed(void**) {
    Json document = mix();
    document["dataset"].erase("weights");
    document["dataset"]["parts"] = Json::array();
    for (int i = 0; i < 64; ++i) {
        document["dataset"]["parts"].push_back({{"path", "/data/" + std::to_string(i)}});
        assert_int_equal(accepted(document).parts.size(), i + 1);
    }
    document["dataset"]["parts"].push_back({{"path", "/data/65"}});
    assert_refused(document, "dataset.parts is an array of 65, allowed: an array of 1 to 64 folders");
}

void a_mix_that_is_none_is_refused_with_its_key(void**) {
    const struct {
        const char* pointer;
        const char* value;
        const char* message;
    } kCases[] = {
        {"/parts", "[]", "dataset.parts is an array of 0, allowed: an array of 1 to 64 folders"},
        {"/parts", "{}", "dataset.parts is an object, allowed: an array of 1 to 64 folders"},
        {"/parts/1", "\"/data/b\"",
         "dataset.parts[1] is \"/data/b\", allowed: an object with the keys kind, path, subset"},
        {"/parts/1", "{}", "dataset.parts[1].path is missing"},
        {"/parts/0/path", "\"\"",
         "dataset.parts[0].path is \"\", allowed: a string that is not empty and has no NUL in it"},
        {"/parts/1/kind", "\"folder\"", "dataset.parts[1].kind is \"folder\", allowed: image_folder"},
        {"/parts/1", R"({"kind": "mix", "parts": []})",
         "dataset.parts[1].kind is \"mix\", allowed: image_folder, no mix within a mix"},
        {"/parts/1/max_pixels", "5",
         "dataset.parts[1].max_pixels is not a known key; known: kind, path, subset"},
        {"/parts/1/subset", R"({"fraction": 2})",
         "dataset.parts[1].subset.fraction is 2, allowed: a number above 0 and at most 1"},
        {"/parts/1/subset", R"({"ids": [4, 4]})",
         "dataset.parts[1].subset.ids has 4 twice, allowed: each id once"},
        {"/parts/1/subset", R"({"first": 1})",
         "dataset.parts[1].subset.first is not a known key; known: fraction, ids, labels"},
        {"/weights", "[1]",
         "dataset.weights is an array of 1, allowed: a number above 0 for each part, 2 in all"},
        {"/weights", "[1, 0]",
         "dataset.weights is an array of 2, allowed: a number above 0 for each part, 2 in all"},
        {"/weights", "[1, \"2\"]",
         "dataset.weights is an array of 2, allowed: a number above 0 for each part, 2 in all"},
        {"/weights", "2", "dataset.weights is 2, allowed: a number above 0 for each part, 2 in all"},
        {"/subset", R"({"fraction": 0.5})",
         "dataset.subset is no key of a mix: say of each part what is wanted of it, as in "
         "dataset.parts[0].subset"},
        {"/path", "\"/data\"", "dataset.path is not a known key; known: kind, parts, weights, max_pixels"},
        {"/max_pixels", "0", "dataset.max_pixels is 0, allowed: a whole number from 1 to 2147483648"},
    };
    for (const auto& [pointer, value, message] : kCases)
        assert_refused(changed_mix(pointer, value), message);
    Json without = mix();
    without["dataset"].erase("parts");
    assert_refused(without, "dataset.parts is missing");
    assert_refused(changed("/dataset/parts", "[]"),
                   "dataset.parts is not a known key; known: kind, path, max_pixels, subset");
    assert_refused(changed_mix("/parts/0/kind", "\"webdataset\""),
                   "dataset.parts[0].kind \"webdataset\" is not built yet; built: image_folder",
                   Status::kUnsupported);
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(a_mix_is_read_as_written),
        cmocka_unit_test(a_mix_survives_a_round_trip_through_its_document),
        cmocka_unit_test(one_to_64_parts_are_allowed),
        cmocka_unit_test(a_mix_that_is_none_is_refused_with_its_key),
    };
    return cmocka_run_group_tests_name("mix spec", tests, nullptr, nullptr);
}
