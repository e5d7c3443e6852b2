// A lawful spec is read as written, gets its defaults, and survives a round trip through its canonical
// document.
#include "daemon/plan/spec.h"

#include <cmath>
#include <set>

#include "daemon/plan/random.h"
#include "tests/plan/spec_documents.h"

namespace sl {
namespace {

void the_document_of_the_interface_is_read_as_written(void**) {
    const Spec spec = accepted(full());
    assert_string_equal(spec.parts.front().path.c_str(), "/data/train");
    const Pipeline& p = spec.pipeline;
    assert_int_equal(p.op_count, 4);
    assert_true(p.ops[1].kind == OpKind::kRandomResizedCrop);
    assert_int_equal(p.ops[1].slot, 1);
    assert_true(p.ops[1].scale[0] == 0.08 && p.ops[1].scale[1] == 1.0);
    assert_true(p.ops[1].ratio[0] == 0.75 && p.ops[1].ratio[1] == 1.3333333333);
    assert_int_equal(p.height, 224);
    assert_int_equal(p.width, 224);
    assert_int_equal(p.channels, 3);
    assert_int_equal(p.has_normalize, 1);
    assert_true(p.mean[0] == 0.485F && p.std[2] == 0.225F);
    assert_int_equal(p.sample_bytes(), 224 * 224 * 3);
}

void a_spec_with_only_a_dataset_gets_every_default(void**) {
    const Spec spec = accepted(minimal());
    const Spec same = accepted(with_ops(R"([{"op": "decode"}])"));
    assert_true(spec == same);
    assert_int_equal(spec.pipeline.op_count, 1);
    assert_int_equal(spec.pipeline.height, 0);
    assert_true(spec.dtype == Dtype::kFloat32 && spec.layout == Layout::kNchw);
    assert_true(spec.batch == BatchRules{});
    assert_true(spec.shuffle && spec.seed == 0 && spec.order_policy == OrderPolicy::kStrict);
    assert_true(spec.error_policy == ErrorPolicy::kRefill && spec.max_failures == 100);
    assert_true(spec.epochs == 1 && spec.share == Share::kAuto && !spec.explain);
}

void an_implied_decode_gives_the_same_slots_as_a_written_one(void**) {
    const Spec implied = accepted(with_ops(R"([{"op": "random_resized_crop", "size": 8}])"));
    const Spec written =
        accepted(with_ops(R"([{"op": "decode"}, {"op": "random_resized_crop", "size": [8, 8]}])"));
    assert_true(implied == written);
    assert_int_equal(implied.pipeline.ops[1].slot, 1);
}

void sizes_are_height_then_width_and_one_number_is_a_square_or_a_short_side(void**) {
    const Spec crop = accepted(with_ops(R"([{"op": "center_crop", "size": [5, 7]}])"));
    assert_true(crop.pipeline.height == 5 && crop.pipeline.width == 7);
    const Spec eval =
        accepted(with_ops(R"([{"op": "resize", "size": 256}, {"op": "center_crop", "size": 224}])"));
    assert_true(eval.pipeline.ops[1].height == 256 && eval.pipeline.ops[1].width == 0);
    assert_true(eval.pipeline.height == 224 && eval.pipeline.width == 224);
}

void every_choice_of_every_key_survives_a_round_trip(void**) {
    constexpr struct {
        const char* pointer;
        const char* values;
    } kChoices[] = {
        {"/output/layout", R"(["NCHW", "NHWC"])"},
        {"/output/dtype", R"(["float32", "float16", "bfloat16"])"},
        {"/batch/size", "[1, 1048576]"},
        {"/batch/last", R"(["drop", "keep", "pad"])"},
        {"/order/shuffle", "[true, false]"},
        {"/order/seed", "[0, 18446744073709551615]"},
        {"/order/policy", R"(["strict", "ready"])"},
        {"/shard", R"([{"rank": 3, "world_size": 4}, {"uneven": "drop"}, {"uneven": "wrap"}])"},
        {"/errors/policy", R"(["refill", "placeholder", "fail"])"},
        {"/errors/max_failures", "[0, 9007199254740992]"},
        {"/errors/max_rate", "[0, 0.123456789, 1]"},
        {"/epochs", "[1, 90]"},
        {"/profile", R"(["pillow", "fast"])"},
        {"/share", R"(["auto", "private"])"},
        {"/explain", "[false, true]"},
        {"/dataset/max_pixels", "[50176, 2147483648]"},
        {"/dataset/path", R"(["ä/\"b\"", "a\nb"])"},
        {"/pipeline/1/scale", "[[0.1, 0.1], [0.3333333333333333, 1]]"},
        {"/pipeline/1/ratio", "[[1, 1], [0.1, 10]]"},
        {"/pipeline/2/p", "[0, 0.1, 1]"},
        {"/pipeline/3/mean", "[[0, -1.5, 0.1], [1e-7, 0.3333333, 1000]]"},
        {"/pipeline/3/std", "[[1, 2, 0.000001], [0.2290001, 0.1, 7]]"},
    };
    for (const auto& [pointer, values] : kChoices) {
        std::set<std::string> documents;
        const Json all = Json::parse(values);
        for (const Json& value : all) {
            const Spec spec = accepted(changed(pointer, value.dump().c_str()));
            const std::string document = to_json(spec);
            const auto again = parse_spec(document);
            if (!again) fail_msg("%s: %s", pointer, again.error().message.c_str());
            assert_true(*again == spec);
            assert_string_equal(to_json(*again).c_str(), document.c_str());
            documents.insert(document);
        }
        assert_int_equal(documents.size(), all.size());  // no choice is lost on the way
    }
}

void floats_of_any_size_survive_a_round_trip(void**) {
    Random random({.seed = 1, .epoch = 0, .sample_id = 0}, 0);
    for (int i = 0; i < 500; ++i) {
        Json document = full();
        for (int c = 0; c < 3; ++c)
            document["pipeline"][3]["std"][c] = std::exp(random.uniform(-13.0, 13.0));
        const Spec spec = accepted(document);
        assert_true(*parse_spec(to_json(spec)) == spec);
    }
}

void the_canonical_document_names_every_key(void**) {
    assert_string_equal(
        to_json(accepted(minimal())).c_str(),
        R"({"dataset":{"kind":"image_folder","path":"/data/train","max_pixels":268435456},)"
        R"("pipeline":[{"op":"decode","channels":3}],"output":{"dtype":"float32","layout":"NCHW"},)"
        R"("batch":{"size":64,"last":"drop"},"order":{"shuffle":true,"seed":0,"policy":"strict"},)"
        R"("shard":{"rank":0,"world_size":1,"uneven":"pad"},)"
        R"("errors":{"policy":"refill","max_failures":100,"max_rate":0.01},"epochs":1,"profile":"pillow",)"
        R"("share":"auto","explain":false})");
}

void grey_pictures_have_one_mean(void**) {
    const Spec spec = accepted(
        with_ops(R"([{"op": "decode", "channels": 1}, {"op": "normalize", "mean": [0.5], "std": [0.25]}])"));
    assert_int_equal(spec.pipeline.channels, 1);
    assert_true(spec.pipeline.mean[0] == 0.5F && spec.pipeline.std[0] == 0.25F);
    assert_true(*parse_spec(to_json(spec)) == spec);
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(the_document_of_the_interface_is_read_as_written),
        cmocka_unit_test(a_spec_with_only_a_dataset_gets_every_default),
        cmocka_unit_test(an_implied_decode_gives_the_same_slots_as_a_written_one),
        cmocka_unit_test(sizes_are_height_then_width_and_one_number_is_a_square_or_a_short_side),
        cmocka_unit_test(every_choice_of_every_key_survives_a_round_trip),
        cmocka_unit_test(floats_of_any_size_survive_a_round_trip),
        cmocka_unit_test(the_canonical_document_names_every_key),
        cmocka_unit_test(grey_pictures_have_one_mean),
    };
    return cmocka_run_group_tests_name("spec", tests, nullptr, nullptr);
}
