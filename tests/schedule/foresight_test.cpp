// What is known of a sample's cost between its first prediction and its decode: predictions are renewed, and
// a header tells of a new sample what its bytes do not.
#include <cmath>
#include <vector>

#include "daemon/plan/draws.h"
#include "daemon/predict/predictor.h"
#include "tests/cmocka_cpp.h"
#include "tests/schedule/pictures.h"

namespace sl {
namespace {

// A sample that was never decoded and whose header has been looked at: its picture is known, its residual
// not.
void a_header_tells_of_a_new_sample_what_its_bytes_do_not(void**) {
    const Pipeline pipeline = random_crop();
    Predictor predictor(pipeline, kIds);
    Pictures pictures(12);
    constexpr std::uint64_t kSamples = 1000;
    double by_bytes = 0;
    double by_header = 0;
    for (std::uint64_t id = 0; id < kSamples; ++id) {
        const Cropped sample = cropped(pictures, pipeline, id, 0);
        const Prediction fresh = predictor.predict(sample.key, sample.bytes, kJpeg);
        const double mean = predictor.mean_ns();
        const double typical = predictor.typical_ns();
        const Picture header{kJpeg, sample.observed.width, sample.observed.height, false};
        const Prediction seen = predictor.renew(sample.key, sample.bytes, header);
        assert_false(seen.known);
        assert_true(predictor.mean_ns() == mean && predictor.typical_ns() == typical);
        if (id >= 200) {
            by_bytes += std::abs(fresh.cost_ns / sample.observed.cost_ns - 1) / (kSamples - 200);
            by_header += std::abs(seen.cost_ns / sample.observed.cost_ns - 1) / (kSamples - 200);
        }
        predictor.observe(sample.key, sample.bytes, sample.observed);
    }
    assert_true(by_bytes > 0.15);
    assert_true(by_header < 0.06);  // the noise alone makes 0.04
}

void progressive_is_told_by_the_header_and_what_was_decoded_goes_before_it(void**) {
    Predictor predictor(resize_only(), kIds);
    Pictures pictures(13);
    for (int i = 0; i < 300; ++i) {
        train(predictor, pictures, 1);
        train(predictor, pictures, 1, 6, true);
    }
    const auto picture = pictures.next();
    const auto side = seen_at(picture.bytes, 0).width;
    const auto cost_if = [&](bool progressive) {
        return predictor.renew(picture.key, picture.bytes, Picture{kJpeg, side, side, progressive}).cost_ns;
    };
    assert_true(std::abs(cost_if(false) / cost_of(picture.bytes) - 1) < 0.15);
    assert_true(std::abs(cost_if(true) / (6 * cost_of(picture.bytes)) - 1) < 0.15);
    predictor.observe(picture.key, picture.bytes, seen_at(picture.bytes, 3 * cost_of(picture.bytes)));
    const Prediction known = predictor.renew(picture.key, picture.bytes, Picture{99, ~0U, ~0U, true});
    assert_true(known.known);
    assert_true(known.cost_ns == predictor.renew(picture.key, picture.bytes, kJpeg).cost_ns);
    const Prediction senseless = predictor.renew({1, 0, 9'000'000}, ~0ULL, Picture{99, ~0U, ~0U, true});
    assert_true(std::isfinite(senseless.cost_ns) && senseless.cost_ns >= 20e3);
}

// What a prediction knew next to nothing of is renewed while the sample waits; that makes it no other
// sample's.
void a_renewed_prediction_knows_what_was_learned_since_and_counts_nowhere(void**) {
    Predictor predictor(resize_only(), kIds);
    Pictures pictures(9);
    std::vector<Pictures::Picture> waiting;
    for (int i = 0; i < 500; ++i)
        waiting.push_back(pictures.next());
    double before = 0;
    for (const auto& picture : waiting)
        before += predictor.predict(picture.key, picture.bytes, kJpeg).cost_ns;
    const auto odd = waiting[100];
    train(predictor, pictures, 300, 10);
    predictor.observe(odd.key, odd.bytes, seen_at(odd.bytes, 200 * cost_of(odd.bytes)));
    const double mean = predictor.mean_ns();
    const double typical = predictor.typical_ns();
    double after = 0;
    double real = 0;
    for (int time = 0; time < 20; ++time) {
        for (const auto& picture : waiting) {
            const Prediction renewed = predictor.renew(picture.key, picture.bytes, kJpeg);
            assert_int_equal(renewed.known, picture.key.sample_id == odd.key.sample_id);
            if (renewed.known) assert_true(renewed.lane == Lane::kHeavy);
            if (time > 0 || renewed.known) continue;
            after += renewed.cost_ns;
            real += 10 * cost_of(picture.bytes);
        }
    }
    assert_true(before < 0.6 * real);
    assert_true(std::abs(after / real - 1) < 0.15);
    assert_true(predictor.mean_ns() == mean && predictor.typical_ns() == typical);
    assert_int_equal(predictor.model().observations(), 301);
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(a_header_tells_of_a_new_sample_what_its_bytes_do_not),
        cmocka_unit_test(progressive_is_told_by_the_header_and_what_was_decoded_goes_before_it),
        cmocka_unit_test(a_renewed_prediction_knows_what_was_learned_since_and_counts_nowhere),
    };
    return cmocka_run_group_tests_name("predict/foresight", tests, nullptr, nullptr);
}
