// A spec of items: what is read, what is refused and with which words, and how an item lies in its slot.
#include "daemon/plan/items.h"
#include "tests/plan/spec_documents.h"

namespace sl {
namespace {

Json items() {
    return Json::parse(R"({
      "dataset": {"kind": "items", "count": 1000, "name": "MyDataset", "crew": "00ff00000000abcd", "epoch": 7},
      "rows": [{"name": "x", "dtype": "float32", "shape": [3, 224, 224]},
               {"name": "y", "dtype": "int64", "shape": []}],
      "batch": {"size": 16, "last": "keep"},
      "order": {"seed": 5, "policy": "ready"},
      "errors": {"policy": "placeholder", "timeout_s": 2.5}
    })");
}

Json opaque() {
    Json document = items();
    document["rows"] = Json::parse(R"([{"name": "item", "dtype": "bytes", "capacity": 1000}])");
    return document;
}

Json changed_items(const char* pointer, const char* value) {
    Json document = items();
    document[Json::json_pointer(pointer)] = Json::parse(value);
    return document;
}

void a_spec_of_items_is_read_as_written(void**) {
    const Spec spec = accepted(items());
    assert_true(spec.kind == DatasetKind::kItems);
    assert_true(spec.parts.empty());
    assert_string_equal(dataset_name(spec).c_str(), "MyDataset");
    assert_int_equal(spec.items.count, 1000);
    assert_true(spec.items.crew == 0x00FF00000000ABCDULL);
    assert_int_equal(spec.items.epoch, 7);
    assert_false(spec.items.opaque);
    assert_true(spec.items.timeout_s == 2.5);
    assert_int_equal(spec.items.rows.size(), 2);
    assert_int_equal(row_bytes(spec.items.rows[0]), 3 * 224 * 224 * 4);
    assert_int_equal(row_bytes(spec.items.rows[1]), 8);
    assert_int_equal(spec.items.rows[1].dtype, SL_SHM_INT64);
    assert_false(spec.shuffle);
    assert_true(spec.order_policy == OrderPolicy::kReady);
    assert_int_equal(spec.epochs, 1);
}

void opaque_rows_are_one_field_of_so_many_bytes(void**) {
    const Spec spec = accepted(opaque());
    assert_true(spec.items.opaque);
    assert_int_equal(spec.items.rows.size(), 1);
    assert_int_equal(row_bytes(spec.items.rows[0]), 1000);
}

Json collated(const char* capacity = "5000") {
    Json document = opaque();
    document["collate"]["capacity"] = Json::parse(capacity);
    return document;
}

void opaque_rows_may_be_collated_into_so_many_bytes(void**) {
    assert_int_equal(accepted(collated()).items.collate_bytes, 5000);
    assert_int_equal(accepted(opaque()).items.collate_bytes, 0);
    assert_refused(collated("0"), "collate.capacity is 0, allowed: a whole number from 1 to 17179869184");
    Json document = items();
    document["collate"]["capacity"] = 5000;
    assert_refused(document, "collate goes with one row of dtype \"bytes\" only");
    document = opaque();
    document["collate"] = Json::object();
    assert_refused(document, "collate.capacity is missing");
    document["collate"] = {{"capacity", 1}, {"colour", 1}};
    assert_refused(document, "collate.colour is not a known key; known: capacity");
}

void a_spec_of_items_survives_a_round_trip_through_its_document(void**) {
    for (const Json& document :
         {items(), opaque(), collated(), changed_items("/dataset/crew", "\"ffffffffffffffff\""),
          changed_items("/order/shuffle", "false")}) {
        const Spec spec = accepted(document);
        const auto again = parse_spec(to_json(spec));
        if (!again) fail_msg("%s", again.error().message.c_str());
        assert_true(*again == spec);
    }
}

void what_says_how_files_become_pictures_is_refused_by_name(void**) {
    for (const char* key : {"pipeline", "output", "profile", "explain", "shard"}) {
        const std::string message =
            std::string(key) +
            " does not go with dataset.kind \"items\": what an item is, and whose, is "
            "the client's to say";
        assert_refused(changed_items(("/" + std::string(key)).c_str(), "{}"), message.c_str());
    }
}

void what_is_wrong_is_named_with_its_key_and_what_is_allowed(void**) {
    constexpr struct {
        const char *pointer, *value, *message;
    } kCases[] = {
        {"/dataset/count", "0", "dataset.count is 0, allowed: a whole number from 1 to 33554432"},
        {"/dataset/name", "\"\"",
         "dataset.name is \"\", allowed: a string that is not empty and has no NUL in it"},
        {"/dataset/crew", "\"FF00000000000000\"",
         "dataset.crew is \"FF00000000000000\", allowed: 16 hexadecimal digits, small letters"},
        {"/dataset/crew", "\"ff\"", "dataset.crew is \"ff\", allowed: 16 hexadecimal digits, small letters"},
        {"/dataset/crew", "5", "dataset.crew is 5, allowed: 16 hexadecimal digits, small letters"},
        {"/dataset/path", "\"/data\"",
         "dataset.path is not a known key; known: kind, count, name, crew, epoch"},
        {"/dataset/epoch", "-1", "dataset.epoch is -1, allowed: a whole number from 0 to 281474976710655"},
        {"/rows", "[]", "rows is an array of 0, allowed: an array of 1 to 16 fields"},
        {"/rows/1/name", "\"x\"", "rows[1].name is \"x\", which another row has too"},
        {"/rows/1/name", "\"valid\"",
         "rows[1].name is \"valid\", allowed: a name other than sample_id, valid, item_bytes, collated, "
         "collated_bytes, which each batch has"},
        {"/rows/1/name", "\"12345678901234567890123456789012\"",
         "rows[1].name is \"12345678901234567890123456789012\", allowed: a name of at most 31 bytes"},
        {"/rows/1/dtype", "\"float64\"",
         "rows[1].dtype is \"float64\", allowed: float32, float16, bfloat16, uint8, int64, uint64, int32"},
        {"/rows/1/dtype", "\"bytes\"", "rows[1].dtype is \"bytes\", which goes with no other row"},
        {"/rows/1/shape", "[1, 2, 3, 4]",
         "rows[1].shape is an array of 4, allowed: an array of at most 3 sides, each 1 to 17179869184"},
        {"/rows/1/shape", "[0]",
         "rows[1].shape is an array of 1, allowed: an array of at most 3 sides, each 1 to 17179869184"},
        {"/rows/1/shape", "[4294967296, 4294967296, 16]",
         "rows ask for more than 17179869184 bytes an item, which is the most that is allowed"},
        {"/rows/0/shape", "[4294967296]",
         "rows ask for more than 17179869184 bytes an item, which is the most that is allowed"},
        {"/rows/1/size", "1", "rows[1].size is not a known key; known: name, dtype, shape"},
        {"/order/shuffle", "true",
         "order.shuffle is true, allowed: false, for the order of items is given with them"},
        {"/epochs", "2", "epochs is 2, allowed: 1, for each epoch of items is a stream of its own"},
        {"/errors/timeout_s", "-1", "errors.timeout_s is -1, allowed: a number from 0.0 to 604800.0"},
        {"/colour", "1",
         "colour is not a known key; known: dataset, rows, batch, order, errors, epochs, share, collate"},
    };
    for (const auto& [pointer, value, message] : kCases)
        assert_refused(changed_items(pointer, value), message);
    for (const char* key : {"count", "name", "crew"}) {
        Json document = items();
        document["dataset"].erase(key);
        assert_refused(document, ("dataset." + std::string(key) + " is missing").c_str());
    }
    Json without = items();
    without.erase("rows");
    assert_refused(without, "rows is missing");
    Json shapeless = items();
    shapeless["rows"][0].erase("shape");
    assert_refused(shapeless, "rows[0].shape is missing");
    Json boundless = opaque();
    boundless["rows"][0].erase("capacity");
    assert_refused(boundless, "rows[0].capacity is missing");
}

void sixteen_rows_are_allowed_and_no_more(void**) {
    Json document = items();
    document["rows"] = Json::array();
    for (int i = 0; i < 16; ++i)
        document["rows"].push_back(
            {{"name", "row " + std::to_string(i)}, {"dtype", "uint8"}, {"shape", Json::array({i + 1})}});
    assert_int_equal(accepted(document).items.rows.size(), 16);
    document["rows"].push_back({{"name", "one more"}, {"dtype", "uint8"}, {"shape", Json::array()}});
    assert_refused(document, "rows is an array of 17, allowed: an array of 1 to 16 fields");
}

void keys_of_items_are_unknown_to_a_folder(void**) {
    assert_refused(changed("/errors/timeout_s", "1"),
                   "errors.timeout_s is not a known key; known: policy, max_failures, max_rate");
    assert_refused(
        changed("/rows", "[]"),
        "rows is not a known key; known: dataset, pipeline, output, batch, order, shard, errors, epochs, "
        "profile, share, explain");
}

void fields_lie_behind_the_header_each_on_a_64_byte_border(void**) {
    const sl_shm_item_layout layout = item_layout(accepted(items()).items);
    assert_int_equal(layout.fields, 2);
    assert_int_equal(layout.flags, 0);
    assert_int_equal(layout.field[0].offset, 64);
    assert_int_equal(layout.field[0].bytes, 602112);
    assert_int_equal(layout.field[1].offset, 64 + 602112);
    assert_int_equal(layout.field[1].bytes, 8);
    assert_int_equal(layout.slot_bytes, 602368);
    const sl_shm_item_layout bytes = item_layout(accepted(opaque()).items);
    assert_int_equal(bytes.fields, 1);
    assert_int_equal(bytes.flags, SL_SHM_ITEM_OPAQUE);
    assert_int_equal(bytes.field[0].offset, 64);
    assert_int_equal(bytes.field[0].bytes, 1000);
    assert_int_equal(bytes.slot_bytes, 1280);
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(a_spec_of_items_is_read_as_written),
        cmocka_unit_test(opaque_rows_are_one_field_of_so_many_bytes),
        cmocka_unit_test(opaque_rows_may_be_collated_into_so_many_bytes),
        cmocka_unit_test(a_spec_of_items_survives_a_round_trip_through_its_document),
        cmocka_unit_test(what_says_how_files_become_pictures_is_refused_by_name),
        cmocka_unit_test(what_is_wrong_is_named_with_its_key_and_what_is_allowed),
        cmocka_unit_test(sixteen_rows_are_allowed_and_no_more),
        cmocka_unit_test(keys_of_items_are_unknown_to_a_folder),
        cmocka_unit_test(fields_lie_behind_the_header_each_on_a_64_byte_border),
    };
    return cmocka_run_group_tests_name("plan/items_spec", tests, nullptr, nullptr);
}
