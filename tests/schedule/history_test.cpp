// What is kept of each sample, in memory and as a file: small, checked, bounded, and void when it should be.
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "daemon/predict/cost_file.h"
#include "daemon/predict/predictor.h"
#include "tests/cmocka_cpp.h"

namespace sl {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kSamples = 5000;
constexpr CostKey kKey{0x1234, 0x5678, kSamples};

Pipeline pipeline_of(std::uint32_t size) {
    Pipeline pipeline;
    pipeline.op_count = 3;
    pipeline.ops[1].kind = OpKind::kResize;
    pipeline.ops[1].height = pipeline.ops[1].width = pipeline.height = pipeline.width = size;
    pipeline.ops[2].kind = OpKind::kNormalize;
    return pipeline;
}

class Folder {
  public:
    Folder() {
        char name[] = "/tmp/sl-costs-XXXXXX";
        path_ = ::mkdtemp(name);
    }
    ~Folder() { fs::remove_all(path_); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] std::string file() const { return cost_path(path_, kKey); }
    [[nodiscard]] std::size_t files() const {
        return static_cast<std::size_t>(std::distance(fs::directory_iterator(path_), {}));
    }

  private:
    std::string path_;
};

CostModel trained() {
    CostModel model(pipeline_of(64), kSamples);
    for (std::uint64_t id = 0; id < kSamples; ++id) {
        const std::uint64_t bytes = 20'000 + 37 * id;
        model.observe({0, 0, id}, bytes, {1, 640, 480, false, 1e6 + 9.0 * static_cast<double>(bytes)});
        model.predict({0, 1, id}, bytes, 1);
    }
    return model;
}

void save_trained(const Folder& folder) {
    CostModel model = trained();
    assert_true(save_costs(folder.path(), kKey, model.learned(), model.history()).has_value());
}

void assert_refused(const Folder& folder, const CostKey& key, const char* reason) {
    auto kept = load_costs(cost_path(folder.path(), key), key);
    assert_false(kept.has_value());
    assert_non_null(std::strstr(kept.error().message.c_str(), reason));
}

void what_goes_in_comes_out(void**) {
    SampleHistory history(100);
    assert_false(history.find(7, 1000).has_value());
    history.learn(7, 1000, {.format = 5, .width = 6000, .height = 4000, .progressive = true}, -1.5);
    history.set_lane(7, 1000, 2);
    const auto record = history.find(7, 1000);
    assert_true(record.has_value());
    assert_int_equal(record->picture.format, 5);
    assert_int_equal(record->picture.width, 6000);
    assert_int_equal(record->picture.height, 4000);
    assert_true(record->picture.progressive);
    assert_int_equal(record->lane, 2);
    assert_true(std::abs(record->residual + 1.5) < 0.02);
    assert_int_equal(history.known(), 1);
}

void the_residual_averages_noise_and_follows_a_change(void**) {
    SampleHistory history(1);
    const Picture picture{1, 640, 480, false};
    for (int i = 0; i < 40; ++i)
        history.learn(0, 1000, picture, i % 2 == 0 ? 0.4 : 0.2);
    assert_true(std::abs(history.find(0, 1000)->residual - 0.3) < 0.1);
    for (int i = 0; i < 5; ++i)
        history.learn(0, 1000, picture, 2.0);
    assert_true(history.find(0, 1000)->residual > 1.8);
}

void a_file_of_another_size_voids_its_entry(void**) {
    SampleHistory history(1);
    history.learn(0, 1000, {1, 640, 480, false}, 3);
    for (std::uint64_t bytes = 900; bytes < 1100; ++bytes)
        assert_int_equal(history.find(0, bytes).has_value(), bytes == 1000);
    history.learn(0, 1001, {1, 320, 240, false}, 0);
    assert_int_equal(history.find(0, 1001)->picture.width, 320);
    assert_true(history.find(0, 1001)->residual == 0);  // nothing of the old file is left
    assert_int_equal(history.known(), 1);
}

void ids_beyond_the_dataset_are_ignored(void**) {
    SampleHistory history(10);
    history.learn(10, 1000, {1, 1, 1, false}, 1);
    history.learn(~std::uint64_t{0}, 1000, {1, 1, 1, false}, 1);
    history.set_lane(10, 1000, 1);
    assert_false(history.find(10, 1000).has_value());
    assert_int_equal(history.known(), 0);
}

void ten_million_samples_take_eight_bytes_each_and_only_once_they_were_seen(void**) {
    constexpr std::uint64_t kMany = 10'000'000;
    SampleHistory history(kMany);
    assert_int_equal(history.resident_bytes(), 0);
    for (std::uint64_t id = 0; id < 1000; ++id)
        history.learn(id, 1000, {1, 640, 480, false}, 0);
    assert_true(history.resident_bytes() <= 4 * 4096);
    for (std::uint64_t id = 0; id < kMany; ++id)
        history.learn(id, 1000, {1, 640, 480, false}, 0);
    assert_int_equal(history.known(), kMany);
    assert_true(history.resident_bytes() <= 8 * kMany + 4096);
}

void a_model_that_was_kept_predicts_as_the_one_it_was(void**) {
    const Folder folder;
    CostModel before = trained();
    assert_true(save_costs(folder.path(), kKey, before.learned(), before.history()).has_value());
    assert_int_equal(folder.files(), 1);  // nothing else is left of writing it
    auto kept = load_costs(folder.file(), kKey);
    assert_true(kept.has_value());
    CostModel after(pipeline_of(64), kSamples);
    after.restore(kept->learned, std::move(kept->history));
    assert_int_equal(after.history().known(), kSamples);
    assert_true(after.classes().typical_ns() == before.classes().typical_ns());
    assert_true(after.mean_ns() == before.mean_ns());
    for (std::uint64_t id = 0; id < kSamples; ++id) {
        const std::uint64_t bytes = 20'000 + 37 * id;
        const Prediction prediction = after.predict({0, 2, id}, bytes, 1);
        assert_true(prediction.known);
        assert_true(prediction.cost_ns == before.predict({0, 2, id}, bytes, 1).cost_ns);
    }
    const double fresh = after.predict({0, 2, kSamples}, 50'000, 1).cost_ns;
    assert_true(fresh == before.predict({0, 2, kSamples}, 50'000, 1).cost_ns);
}

void no_file_is_no_error_and_a_foreign_one_is_not_believed(void**) {
    const Folder folder;
    auto none = load_costs(folder.file(), kKey);
    assert_false(none.has_value());
    assert_true(none.error().status == Status::kNotFound);
    save_trained(folder);
    for (const CostKey& other : {CostKey{1, kKey.pipeline, kSamples}, CostKey{kKey.dataset, 1, kSamples},
                                 CostKey{kKey.dataset, kKey.pipeline, kSamples, 1}}) {
        fs::copy_file(folder.file(), cost_path(folder.path(), other));
        assert_refused(folder, other, "another dataset, pipeline or user");
    }
    assert_refused(folder, {kKey.dataset, kKey.pipeline, kSamples + 1}, "size");
    assert_int_equal(::chmod(folder.file().c_str(), 0666), 0);
    assert_refused(folder, kKey, "others can write it");
}

void every_changed_byte_is_noticed(void**) {
    const Folder folder;
    save_trained(folder);
    std::ifstream in(folder.file(), std::ios::binary);
    const std::string good{std::istreambuf_iterator<char>(in), {}};
    const auto write = [&](const std::string& bytes) {
        std::ofstream(folder.file(), std::ios::binary | std::ios::trunc) << bytes;
    };
    // All of the header's start, then every so often.
    for (std::size_t at = 0; at < good.size(); at += at < 64 ? 1 : 211) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ 0x20);
        write(bad);
        assert_false(load_costs(folder.file(), kKey).has_value());
    }
    for (const std::size_t length :
         {std::size_t{0}, std::size_t{7}, sizeof(CostFileHeader), good.size() - 1}) {
        write(good.substr(0, length));
        assert_false(load_costs(folder.file(), kKey).has_value());
    }
    write(good + "x");
    assert_false(load_costs(folder.file(), kKey).has_value());
    write(good);
    assert_true(load_costs(folder.file(), kKey).has_value());
}

void what_is_no_file_is_refused_without_waiting(void**) {
    const Folder folder;
    assert_int_equal(::mkfifo(folder.file().c_str(), 0600), 0);
    assert_refused(folder, kKey, "no file");
    fs::remove(folder.file());
    fs::create_directory(folder.file());
    assert_refused(folder, kKey, "no file");
    CostModel model = trained();
    assert_false(save_costs(folder.path(), kKey, model.learned(), model.history()).has_value());
    assert_int_equal(folder.files(), 1);  // the unfinished one is gone
}

void numbers_that_are_no_weights_leave_the_model_as_it_began(void**) {
    CostModel::Learned learned;
    for (auto& model : learned.known)
        model = {{std::nan(""), 1, 1, 1}, 100};
    for (auto& model : learned.fresh)
        model = {{1e300, 1, 1, 1}, 100};
    for (auto& size : learned.sizes)
        size = {std::nan(""), 1e200, -1, 1, 1};
    learned.typical_ns = -1;
    learned.mean_ns = std::nan("");
    CostModel model(pipeline_of(64), kSamples);
    CostModel untouched(pipeline_of(64), kSamples);
    model.restore(learned, std::make_unique<SampleHistory>(kSamples));
    assert_true(model.predict({0, 0, 1}, 50'000, 1).cost_ns ==
                untouched.predict({0, 0, 1}, 50'000, 1).cost_ns);
    assert_true(model.mean_ns() == untouched.mean_ns());
}

void pipelines_differ_by_what_a_worker_does_and_not_by_how_rows_are_normalised(void**) {
    const Pipeline pipeline = pipeline_of(64);
    Pipeline other_mean = pipeline;
    other_mean.has_normalize = 1;
    other_mean.mean[0] = 0.5F;
    assert_true(pipeline_hash(other_mean) == pipeline_hash(pipeline));
    Pipeline without = pipeline;
    without.op_count = 2;
    assert_true(pipeline_hash(without) == pipeline_hash(pipeline));
    assert_true(pipeline_hash(pipeline_of(65)) != pipeline_hash(pipeline));
    Pipeline fast = pipeline;
    fast.profile = Profile::kFast;
    assert_true(pipeline_hash(fast) != pipeline_hash(pipeline));
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(what_goes_in_comes_out),
        cmocka_unit_test(the_residual_averages_noise_and_follows_a_change),
        cmocka_unit_test(a_file_of_another_size_voids_its_entry),
        cmocka_unit_test(ids_beyond_the_dataset_are_ignored),
        cmocka_unit_test(ten_million_samples_take_eight_bytes_each_and_only_once_they_were_seen),
        cmocka_unit_test(a_model_that_was_kept_predicts_as_the_one_it_was),
        cmocka_unit_test(no_file_is_no_error_and_a_foreign_one_is_not_believed),
        cmocka_unit_test(every_changed_byte_is_noticed),
        cmocka_unit_test(what_is_no_file_is_refused_without_waiting),
        cmocka_unit_test(numbers_that_are_no_weights_leave_the_model_as_it_began),
        cmocka_unit_test(pipelines_differ_by_what_a_worker_does_and_not_by_how_rows_are_normalised),
    };
    return cmocka_run_group_tests_name("predict/history", tests, nullptr, nullptr);
}
