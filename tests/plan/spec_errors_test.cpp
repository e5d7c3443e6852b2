// A spec is read strictly: everything wrong is one sentence that names the key, and nothing else gets
// through.
#include <cstring>

#include "tests/plan/spec_documents.h"

namespace sl {
namespace {

void an_unknown_key_is_named_with_its_path_and_the_known_ones(void**) {
    assert_refused(changed("/pipeline/1/sise", "224"),
                   "pipeline[1].sise is not a known key; known: op, size, scale, ratio");
    assert_refused(changed("/dataset/root", "1"),
                   "dataset.root is not a known key; known: kind, path, max_pixels, subset");
    assert_refused(
        changed("/batchsize", "1"),
        "batchsize is not a known key; known: dataset, pipeline, output, batch, order, shard, errors, "
        "epochs, profile, share, explain");
    assert_refused(changed("/output/type", "1"), "output.type is not a known key; known: dtype, layout");
    assert_refused(changed("/batch/drop_last", "1"), "batch.drop_last is not a known key; known: size, last");
    assert_refused(changed("/order/x", "1"), "order.x is not a known key; known: shuffle, seed, policy");
    assert_refused(changed("/shard/x", "1"), "shard.x is not a known key; known: rank, world_size, uneven");
    assert_refused(changed("/errors/x", "1"),
                   "errors.x is not a known key; known: policy, max_failures, max_rate");
}

void a_wrong_value_is_named_with_its_key_and_what_is_allowed(void**) {
    constexpr struct {
        const char *pointer, *value, *message;
    } kCases[] = {
        {"/dataset/path", "\"\"",
         "dataset.path is \"\", allowed: a string that is not empty and has no NUL in it"},
        {"/dataset/path", R"("a\u0000b")",
         "dataset.path is \"a\\u0000b\", allowed: a string that is not empty and has no NUL in it"},
        {"/dataset/max_pixels", "0", "dataset.max_pixels is 0, allowed: a whole number from 1 to 2147483648"},
        {"/dataset/kind", "\"folder\"", "dataset.kind is \"folder\", allowed: image_folder, mix, items"},
        {"/batch/size", "0", "batch.size is 0, allowed: a whole number from 1 to 1048576"},
        {"/batch/size", "\"64\"", "batch.size is \"64\", allowed: a whole number from 1 to 1048576"},
        {"/batch/size", "1.5", "batch.size is 1.5, allowed: a whole number from 1 to 1048576"},
        {"/batch/last", "\"dorp\"", "batch.last is \"dorp\", allowed: drop, keep, pad"},
        {"/order/seed", "-1", "order.seed is -1, allowed: a whole number from 0 to 18446744073709551615"},
        {"/order/seed", "18446744073709551616",
         "order.seed is 1.8446744073709552e+19, allowed: a whole number from 0 to 18446744073709551615"},
        {"/order/shuffle", "1", "order.shuffle is 1, allowed: true or false"},
        {"/order/policy", "null", "order.policy is null, allowed: strict, ready"},
        {"/shard/rank", "1", "shard.rank is 1, allowed: less than shard.world_size 1"},
        {"/shard/uneven", "true", "shard.uneven is true, allowed: pad, drop, wrap"},
        {"/errors/max_rate", "1.01", "errors.max_rate is 1.01, allowed: a number from 0.0 to 1.0"},
        {"/errors/policy", "[]", "errors.policy is an array of 0, allowed: refill, placeholder, fail"},
        {"/epochs", "0", "epochs is 0, allowed: a whole number from 1 to 281474976710656"},
        {"/profile", "\"best\"", "profile is \"best\", allowed: pillow, pillow13, fast"},
        {"/share", "{}", "share is an object, allowed: auto, private"},
        {"/explain", "\"yes\"", "explain is \"yes\", allowed: true or false"},
        {"/output", "\"float32\"", "output is \"float32\", allowed: an object with the keys dtype, layout"},
        {"/output/dtype", "\"float64\"",
         "output.dtype is \"float64\", allowed: float32, float16, bfloat16, uint8"},
        {"/output/dtype", "\"uint8\"",
         "output.dtype is \"uint8\", which cannot hold what normalize makes: drop normalize, or use float32, "
         "float16 or bfloat16"},
    };
    for (const auto& [pointer, value, message] : kCases)
        assert_refused(changed(pointer, value), message);
}

void a_wrong_value_in_an_op_is_named_with_the_ops_index(void**) {
    constexpr struct {
        const char *pointer, *value, *message;
    } kCases[] = {
        {"/pipeline", "{}", "pipeline is an object, allowed: an array of ops"},
        {"/pipeline/1", "224", "pipeline[1] is 224, allowed: an object with the key op"},
        {"/pipeline/1/op", "\"rotate\"",
         "pipeline[1].op is \"rotate\", allowed: decode, random_resized_crop, resize, center_crop, "
         "random_horizontal_flip, normalize"},
        {"/pipeline/0/channels", "4", "pipeline[0].channels is 4, allowed: 1 (grey) or 3 (RGB)"},
        {"/pipeline/0/channels", "0", "pipeline[0].channels is 0, allowed: a whole number from 1 to 4"},
        {"/pipeline/1/size", "0",
         "pipeline[1].size is 0, allowed: a side or [height, width], each 1 to 65535"},
        {"/pipeline/1/size", "[224]",
         "pipeline[1].size is an array of 1, allowed: a side or [height, width], each 1 to 65535"},
        {"/pipeline/1/scale", "[0.5, 0.1]",
         "pipeline[1].scale is an array of 2, allowed: [low, high] with 0 < low <= high <= 1"},
        {"/pipeline/1/scale", "0.5", "pipeline[1].scale is 0.5, allowed: an array of 2 numbers"},
        {"/pipeline/1/ratio", "[0, 1]",
         "pipeline[1].ratio is an array of 2, allowed: [low, high] of width / height with 0.001 <= low <= "
         "high "
         "<= 1000"},
        {"/pipeline/2/p", "1.5", "pipeline[2].p is 1.5, allowed: a number from 0.0 to 1.0"},
        {"/pipeline/3/mean", "[0.5]", "pipeline[3].mean is an array of 1, allowed: an array of 3 numbers"},
        {"/pipeline/3/std", "[1, 0, 1]", "pipeline[3].std is 0, allowed: numbers from 1e-6 to 1e6"},
    };
    for (const auto& [pointer, value, message] : kCases)
        assert_refused(changed(pointer, value), message);
}

void a_missing_key_that_has_no_default_is_named(void**) {
    assert_refused(std::string_view("{}"), "dataset is missing");
    assert_refused(std::string_view(R"({"dataset": {}})"), "dataset.path is missing");
    assert_refused(with_ops(R"([{"size": 3}])"),
                   "pipeline[0].op is missing, allowed: decode, random_resized_crop, resize, center_crop, "
                   "random_horizontal_flip, normalize");
    assert_refused(with_ops(R"([{"op": "center_crop"}])"), "pipeline[0].size is missing");
    assert_refused(with_ops(R"([{"op": "normalize", "mean": [0, 0, 0]}])"), "pipeline[0].std is missing");
}

void an_order_of_ops_that_cannot_be_served_is_refused_with_the_reason(void**) {
    constexpr struct {
        const char *ops, *message;
    } kCases[] = {
        {R"([{"op": "resize", "size": 256}])",
         "pipeline needs a fixed output size: add center_crop after resize, or give resize a size of "
         "[height, "
         "width]"},
        {R"([{"op": "resize", "size": 9}, {"op": "decode"}])",
         "pipeline[1] (decode) is not the first op: decode comes first, and once"},
        {R"([{"op": "normalize", "mean": [0, 0, 0], "std": [1, 1, 1]}, {"op": "random_horizontal_flip"}])",
         "pipeline[1] (random_horizontal_flip) comes after normalize, which must be the last op"},
        {R"([{"op": "resize", "size": 9}, {"op": "random_resized_crop", "size": 8}])",
         "pipeline[1] (random_resized_crop) scales a second time: a pipeline has one resize or one "
         "random_resized_crop"},
        {R"([{"op": "center_crop", "size": 9}, {"op": "resize", "size": [8, 8]}])",
         "pipeline[1] (resize) comes after center_crop: put it before"},
        {R"([{"op": "random_horizontal_flip"}, {"op": "resize", "size": [8, 8]}])",
         "pipeline[1] (resize) comes after random_horizontal_flip: put it before"},
        {R"([{"op": "center_crop", "size": 9}, {"op": "center_crop", "size": 8}])",
         "pipeline[1] (center_crop) is a second center_crop: keep the smaller one"},
        {R"([{"op": "center_crop", "size": 30000}])",
         "pipeline makes 900000000 pixels a sample, more than dataset.max_pixels 268435456"},
    };
    for (const auto& [ops, message] : kCases)
        assert_refused(with_ops(ops), message);
    Json many = with_ops("[]");
    for (int i = 0; i < 8; ++i)
        many["pipeline"].push_back({{"op", "random_horizontal_flip"}});
    assert_refused(many, "pipeline[7] is one op too many: at most 8, with the decode in front");
}

void a_dataset_kind_that_is_not_built_yet_says_so(void**) {
    for (const std::string kind : {"file_list", "webdataset", "npy", "nifti", "audio", "tokens", "table"}) {
        assert_refused(changed("/dataset/kind", ("\"" + kind + "\"").c_str()),
                       ("dataset.kind \"" + kind + "\" is not built yet; built: image_folder, mix, items").c_str(),
                       Status::kUnsupported);
    }
}

void text_that_is_not_json_is_refused_with_its_place(void**) {
    const auto broken = parse_spec("{\"dataset\": ");
    assert_non_null(
        std::strstr(broken.error().message.c_str(), "the spec is not JSON: parse error at line 1, column"));
    assert_refused(std::string_view("[]"),
                   "the spec is an array of 0, allowed: an object with the keys dataset, pipeline, output, "
                   "batch, order, shard, errors, epochs, profile, share, explain");
    assert_refused(std::string_view(R"({"epochs": 1, "epochs": 2})"),
                   "the key \"epochs\" comes twice in one object");
    for (const std::string_view text :
         {"", "\xff\xfe", "{\"epochs\": 1e999}", "{\"a\": \"\xc3\x28\"}", "nul"}) {
        assert_true(parse_spec(text).error().status == Status::kSpec);
    }
}

// What a hostile client may send: depth, size, many keys.
void a_hostile_document_is_one_sentence(void**) {
    assert_true(parse_spec(std::string(60000, '[')).error().status == Status::kSpec);
    std::string deep = "{\"dataset\": " + std::string(30000, '[') + std::string(30000, ']') + "}";
    assert_string_equal(
        parse_spec(deep).error().message.c_str(),
        "dataset is an array of 1, allowed: an object with the keys kind, path, max_pixels, subset");
    assert_string_equal(parse_spec(std::string(65537, ' ')).error().message.c_str(),
                        "the spec has 65537 bytes, allowed: 65536");
    const std::string long_word = "{\"dataset\": {\"kind\": \"" + std::string(50000, 'x') + "\"}}";
    assert_true(parse_spec(long_word).error().message.size() < 200);
    const std::string long_key = "{\"" + std::string(50000, 'x') + "\": 1}";
    assert_true(parse_spec(long_key).error().message.size() < 300);
}

// Each prefix and each one-byte change of a lawful document is answered, never thrown at the caller.
void any_damage_to_a_document_is_answered(void**) {
    const std::string text = full().dump();
    for (std::size_t i = 0; i < text.size(); ++i) {
        assert_false(parse_spec(text.substr(0, i)).has_value());
        for (const char byte : {'"', '}', '9', '\0'}) {
            std::string damaged = text;
            damaged[i] = byte;
            const auto spec = parse_spec(damaged);
            if (spec) assert_true(*parse_spec(to_json(*spec)) == *spec);
            if (!spec) assert_false(spec.error().message.empty());
        }
    }
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(an_unknown_key_is_named_with_its_path_and_the_known_ones),
        cmocka_unit_test(a_wrong_value_is_named_with_its_key_and_what_is_allowed),
        cmocka_unit_test(a_wrong_value_in_an_op_is_named_with_the_ops_index),
        cmocka_unit_test(a_missing_key_that_has_no_default_is_named),
        cmocka_unit_test(an_order_of_ops_that_cannot_be_served_is_refused_with_the_reason),
        cmocka_unit_test(a_dataset_kind_that_is_not_built_yet_says_so),
        cmocka_unit_test(text_that_is_not_json_is_refused_with_its_place),
        cmocka_unit_test(a_hostile_document_is_one_sentence),
        cmocka_unit_test(any_damage_to_a_document_is_answered),
    };
    return cmocka_run_group_tests_name("spec errors", tests, nullptr, nullptr);
}
