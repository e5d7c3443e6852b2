// A saved position is read strictly and compared whole: what differs is named with both values.
#include "daemon/plan/position.h"

#include <cstring>

#include "daemon/plan/random.h"
#include "tests/plan/spec_documents.h"

namespace sl {
namespace {

constexpr std::uint64_t kDataset = 0x0123456789abcdefULL;

Json state() {
    return Json::parse(R"({"speedyloader_state":1,"dataset":"0123456789abcdef","samples":2000,"seed":7,)"
                       R"("shuffle":true,"order":1,"global_batch":64,"last":"drop","epoch":3,"batch":17})");
}

Json state_with(const char* key, const char* value) {
    Json document = state();
    document[key] = Json::parse(value);
    return document;
}

SavedPosition read(const Json& document) {
    const auto saved = parse_position(document.dump());
    if (!saved) fail_msg("%s", saved.error().message.c_str());
    return *saved;
}

void assert_text_not_read(std::string_view text, const char* message) {
    const auto saved = parse_position(text);
    if (saved) fail_msg("accepted, expected: %s", message);
    assert_string_equal(saved.error().message.c_str(), message);
    assert_true(saved.error().status == Status::kSpec);
}

void assert_not_read(const Json& document, const char* message) {
    assert_text_not_read(document.dump(), message);
}

// The stream that wrote state(): 31 batches an epoch, ten epochs.
Spec its_spec() {
    Spec spec;
    spec.batch.size = 32;
    spec.batch.world_size = 2;
    spec.seed = 7;
    spec.epochs = 10;
    return spec;
}

Result<void> check(const SavedPosition& saved, const Spec& spec, std::uint64_t batches = 31) {
    return check_position(saved, start_of(spec, kDataset, 2000), spec, batches);
}

void assert_does_not_fit(const SavedPosition& saved, const Spec& spec, const char* message,
                         Status status = Status::kSpec, std::uint64_t batches = 31) {
    const auto fits = check(saved, spec, batches);
    if (fits) fail_msg("accepted, expected: %s", message);
    assert_string_equal(fits.error().message.c_str(), message);
    assert_true(fits.error().status == status);
}

void every_key_of_a_state_is_read(void**) {
    const SavedPosition saved = read(state());
    assert_true(saved.dataset == kDataset && saved.samples == 2000 && saved.seed == 7 && saved.shuffle);
    assert_true(saved.order == 1 && saved.global_batch == 64 && saved.last == LastBatch::kDrop);
    assert_true(saved.epoch == 3 && saved.batch == 17);
    assert_true(read(state_with("seed", "18446744073709551615")).seed == UINT64_MAX);
    assert_true(read(state_with("dataset", "\"0000000000000000\"")).dataset == 0);
    assert_true(read(state_with("last", "\"keep\"")).last == LastBatch::kKeep);
    assert_true(read(state_with("last", "\"pad\"")).last == LastBatch::kPad);
    assert_false(read(state_with("shuffle", "false")).shuffle);
}

void keys_may_come_in_any_order_with_blanks_between(void**) {
    Json turned;
    const Json whole = state();
    for (auto item = whole.rbegin(); item != whole.rend(); ++item)
        turned[item.key()] = item.value();
    const auto saved = parse_position(turned.dump(4));
    assert_true(saved.has_value());
    assert_true(*saved == read(whole));
}

void each_key_must_be_there(void**) {
    const Json whole = state();
    for (const auto& [key, value] : whole.items()) {
        Json without = whole;
        without.erase(key);
        std::string message = "state." + key + " is missing";
        if (key == "speedyloader_state") message += ": this is not a saved position";
        assert_not_read(without, message.c_str());
    }
}

void what_is_not_a_state_is_refused_with_the_key(void**) {
    constexpr struct {
        const char *key, *value, *message;
    } kCases[] = {
        {"speedyloader_state", "2",
         "state.speedyloader_state is 2, allowed: 1, the format that this daemon reads"},
        {"speedyloader_state", "1.0",
         "state.speedyloader_state is 1.0, allowed: 1, the format that this daemon reads"},
        {"dataset", "\"0123456789ABCDEF\"",
         "state.dataset is \"0123456789ABCDEF\", allowed: 16 hexadecimal digits, small letters"},
        {"dataset", "\"123\"", "state.dataset is \"123\", allowed: 16 hexadecimal digits, small letters"},
        {"dataset", "\"-123456789abcdef\"",
         "state.dataset is \"-123456789abcdef\", allowed: 16 hexadecimal digits, small letters"},
        {"dataset", "5", "state.dataset is 5, allowed: 16 hexadecimal digits, small letters"},
        {"samples", "0", "state.samples is 0, allowed: a whole number from 1 to 9223372036854775808"},
        {"seed", "-1", "state.seed is -1, allowed: a whole number from 0 to 18446744073709551615"},
        {"shuffle", "1", "state.shuffle is 1, allowed: true or false"},
        {"order", "0", "state.order is 0, allowed: a whole number from 1 to 4294967295"},
        {"global_batch", "0", "state.global_batch is 0, allowed: a whole number from 1 to 68719476736"},
        {"last", "\"none\"", "state.last is \"none\", allowed: drop, keep, pad"},
        {"epoch", "1.5", "state.epoch is 1.5, allowed: a whole number from 0 to 281474976710656"},
        {"batch", "null", "state.batch is null, allowed: a whole number from 0 to 9223372036854775808"},
        {"rank", "0",
         "state.rank is not a known key; known: speedyloader_state, dataset, samples, seed, shuffle, order, "
         "global_batch, last, epoch, batch"},
    };
    for (const auto& [key, value, message] : kCases)
        assert_not_read(state_with(key, value), message);
}

void a_later_format_is_named_before_its_keys(void**) {
    Json later = state_with("speedyloader_state", "2");
    later["shards"] = 4;
    assert_not_read(later, "state.speedyloader_state is 2, allowed: 1, the format that this daemon reads");
}

void text_that_is_no_object_is_refused(void**) {
    assert_text_not_read(
        "17",
        "state is 17, allowed: an object with the keys speedyloader_state, dataset, samples, "
        "seed, shuffle, order, global_batch, last, epoch, batch");
    assert_text_not_read(std::string(513, ' '), "the state has 513 bytes, allowed: 512");
    const auto half = parse_position(state().dump().substr(0, 40));
    assert_false(half.has_value());
    assert_memory_equal(half.error().message.c_str(), "the state is not JSON: ", 23);
    assert_text_not_read("{\"epoch\":1,\"epoch\":2}", "the key \"epoch\" comes twice in one object");
}

void a_state_fits_its_own_stream_and_any_ranks_with_its_global_batch(void**) {
    Spec spec = its_spec();
    assert_true(check(read(state()), spec).has_value());
    for (const std::uint32_t world : {1U, 4U, 64U}) {
        spec.batch.world_size = world;
        spec.batch.size = 64 / world;
        spec.batch.rank = world - 1;
        assert_true(check(read(state()), spec).has_value());
    }
}

void every_difference_is_named_with_both_values(void**) {
    Spec spec = its_spec();
    spec.seed = 8;
    assert_does_not_fit(read(state()), spec,
                        "the state is of another order: seed is 7 in the state and 8 here");
    spec.shuffle = false;
    spec.batch.size = 16;
    spec.batch.last = LastBatch::kKeep;
    assert_does_not_fit(
        read(state_with("order", "2")), spec,
        "the state is of another order: seed is 7 in the state and 8 here; shuffle is true in "
        "the state and false here; order is 2 in the state and 1 here; global_batch is 64 in "
        "the state and 32 here; last is drop in the state and keep here");
    assert_does_not_fit(read(state_with("dataset", "\"00000000000000ff\"")), its_spec(),
                        "the state is of another dataset: dataset is 00000000000000ff in the state and "
                        "0123456789abcdef here");
    assert_does_not_fit(read(state_with("samples", "1999")), its_spec(),
                        "the state is of another dataset: samples is 1999 in the state and 2000 here");
}

void a_changed_dataset_is_allowed_if_it_is_asked_for_and_nothing_else_is(void**) {
    const Spec spec = its_spec();
    const SavedPosition other = read(state_with("dataset", "\"00000000000000ff\""));
    const SavedPosition fewer = read(state_with("samples", "1999"));
    for (const SavedPosition& saved : {other, fewer}) {
        const SavedPosition start = start_of(spec, kDataset, 2000);
        assert_false(check_position(saved, start, spec, 31).has_value());
        assert_true(check_position(saved, start, spec, 31, OnChange::kAllow).has_value());
        const auto gone = check_position(saved, start, spec, 17, OnChange::kAllow);
        assert_string_equal(gone.error().message.c_str(),
                            "state.batch is 17, allowed: less than the batches of an epoch, 17");
        Spec reseeded = spec;
        reseeded.seed = 8;
        const auto refused =
            check_position(saved, start_of(reseeded, kDataset, 2000), reseeded, 31, OnChange::kAllow);
        assert_string_equal(refused.error().message.c_str(),
                            "the state is of another order: seed is 7 in the state and 8 here");
    }
}

void the_longest_list_of_differences_fits_an_error_message(void**) {
    Spec spec = its_spec();
    spec.seed = UINT64_MAX - 1;
    spec.shuffle = false;
    const auto saved = read(Json::parse(
        R"({"speedyloader_state":1,"dataset":"ffffffffffffffff","samples":9223372036854775807,)"
        R"("seed":18446744073709551615,"shuffle":true,"order":4294967295,"global_batch":68719476736,)"
        R"("last":"keep","epoch":281474976710656,"batch":9223372036854775807})"));
    const auto fits = check_position(saved, start_of(spec, 0, kMaxSamples), spec, 31);
    assert_false(fits.has_value());
    assert_true(fits.error().message.size() < 512);
    assert_non_null(std::strstr(fits.error().message.c_str(), "last is keep in the state and drop here"));
}

void a_batch_that_the_stream_does_not_have_is_refused(void**) {
    const Spec spec = its_spec();
    assert_true(check(read(state_with("batch", "30")), spec).has_value());
    assert_does_not_fit(read(state_with("batch", "31")), spec,
                        "state.batch is 31, allowed: less than the batches of an epoch, 31");
    assert_does_not_fit(read(state_with("epoch", "11")), spec,
                        "state.epoch is 11, allowed: at most the spec's epochs, 10");
    assert_does_not_fit(read(state_with("epoch", "10")), spec,
                        "state.batch is 17, allowed: 0, because state.epoch is the end of the last epoch");
    Json end = state_with("epoch", "10");
    end["batch"] = 0;
    assert_true(check(read(end), spec).has_value());
}

void steps_beyond_what_can_be_counted_are_refused(void**) {
    Spec spec = its_spec();
    spec.epochs = kEpochLimit;
    const SavedPosition far = read(state_with("epoch", "281474976710655"));
    assert_true(check(far, spec, 1U << 15).has_value());
    assert_does_not_fit(
        far, spec, "state.epoch is 281474976710655: more batches than can be counted would lie before it",
        Status::kSpec, 1U << 16);
}

void a_ready_stream_begins_only_at_an_epochs_start(void**) {
    Spec spec = its_spec();
    spec.order_policy = OrderPolicy::kReady;
    assert_does_not_fit(read(state()), spec,
                        "state.batch is 17: a stream whose batches hold what finished first (order.policy "
                        "\"ready\", sample level) can only begin at an epoch's start",
                        Status::kUnsupported);
    assert_true(check(read(state_with("batch", "0")), spec).has_value());
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(every_key_of_a_state_is_read),
        cmocka_unit_test(keys_may_come_in_any_order_with_blanks_between),
        cmocka_unit_test(each_key_must_be_there),
        cmocka_unit_test(what_is_not_a_state_is_refused_with_the_key),
        cmocka_unit_test(a_later_format_is_named_before_its_keys),
        cmocka_unit_test(text_that_is_no_object_is_refused),
        cmocka_unit_test(a_state_fits_its_own_stream_and_any_ranks_with_its_global_batch),
        cmocka_unit_test(every_difference_is_named_with_both_values),
        cmocka_unit_test(a_changed_dataset_is_allowed_if_it_is_asked_for_and_nothing_else_is),
        cmocka_unit_test(the_longest_list_of_differences_fits_an_error_message),
        cmocka_unit_test(a_batch_that_the_stream_does_not_have_is_refused),
        cmocka_unit_test(steps_beyond_what_can_be_counted_are_refused),
        cmocka_unit_test(a_ready_stream_begins_only_at_an_epochs_start),
    };
    return cmocka_run_group_tests_name("position", tests, nullptr, nullptr);
}
