// The store of cost models: shared by who opens the same, kept between runs, and nobody waits for a file.
#include <filesystem>
#include <fstream>

#include "daemon/predict/cost_store.h"
#include "tests/cmocka_cpp.h"

namespace sl {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kDataset = 42;
constexpr std::uint64_t kSamples = 100;

Pipeline pipeline_of(std::uint32_t size) {
    Pipeline pipeline;
    pipeline.op_count = 2;
    pipeline.ops[1].kind = OpKind::kResize;
    pipeline.ops[1].height = pipeline.ops[1].width = pipeline.height = pipeline.width = size;
    return pipeline;
}

class Run {
  public:
    explicit Run(const std::string& folder) : loop_(*EventLoop::create()) {
        store_ = *CostStore::create(*loop_, folder);
    }
    CostStore& store() { return *store_; }
    // Turns the loop until the model may be used.
    void wait_for(const CostModel& model) {
        loop_->on_idle(
            [&] {
                const bool ready = store_->is_ready(model);
                if (ready) loop_->stop();
                return ready;  // then the loop does not sleep
            },
            [] {});
        loop_->run();
    }

  private:
    std::unique_ptr<EventLoop> loop_;
    std::unique_ptr<CostStore> store_;  // goes first: it takes its descriptor out of the loop
};

int make_folder(void** state) {
    char name[] = "/tmp/sl-store-XXXXXX";
    if (::mkdtemp(name) == nullptr) return -1;
    *state = new std::string(name);
    return 0;
}

int remove_folder(void** state) {
    auto* folder = static_cast<std::string*>(*state);
    fs::remove_all(*folder);
    delete folder;
    return 0;
}

void learn(CostModel& model, std::uint64_t samples) {
    for (std::uint64_t id = 0; id < samples; ++id)
        model.observe({0, 0, id}, 1000, {1, 640, 480, false, 5e6});
}

void who_opens_the_same_dataset_and_pipeline_shares_a_model(void** state) {
    Run run(*static_cast<std::string*>(*state));
    const auto model = run.store().open(kDataset, kSamples, pipeline_of(64));
    assert_ptr_equal(run.store().open(kDataset, kSamples, pipeline_of(64)).get(), model.get());
    assert_ptr_not_equal(run.store().open(kDataset, kSamples, pipeline_of(65)).get(), model.get());
    assert_ptr_not_equal(run.store().open(kDataset + 1, kSamples, pipeline_of(64)).get(), model.get());
}

void users_learn_apart_and_each_finds_the_own_again(void** state) {
    const auto* folder = static_cast<std::string*>(*state);
    const auto learned = [&](Run& run, std::optional<uid_t> by) {
        const auto model = run.store().open(kDataset, kSamples, pipeline_of(64), by);
        run.wait_for(*model);
        return model;
    };
    {
        Run run(*folder);
        const auto own = learned(run, std::nullopt);
        const auto one = learned(run, 1000);
        assert_true(own != one && one != learned(run, 1001) && one == learned(run, 1000));
        learn(*one, kSamples);
        assert_true(own->observations() == 0);
        run.store().ended(one);
    }
    Run run(*folder);
    assert_int_equal(learned(run, 1000)->history().known(), kSamples);
    for (const auto by : {std::optional<uid_t>(1001), std::optional<uid_t>()})
        assert_int_equal(learned(run, by)->history().known(), 0);
}

void a_model_is_ready_when_its_file_has_been_read_and_not_before(void** state) {
    Run run(*static_cast<std::string*>(*state));
    const auto model = run.store().open(kDataset, kSamples, pipeline_of(64));
    assert_false(run.store().is_ready(*model));  // the answer comes through the loop, which has not turned
    run.wait_for(*model);
    assert_true(run.store().is_ready(*model));
}

void without_a_folder_a_model_is_ready_at_once(void**) {
    Run run("");
    const auto model = run.store().open(kDataset, kSamples, pipeline_of(64));
    assert_true(run.store().is_ready(*model));
    learn(*model, kSamples);
    run.store().ended(model);
}

void what_was_learned_is_there_in_the_next_run(void** state) {
    const std::string& folder = *static_cast<std::string*>(*state);
    double cost = 0;
    {
        Run run(folder);
        const auto model = run.store().open(kDataset, kSamples, pipeline_of(64));
        run.wait_for(*model);
        learn(*model, kSamples);
        cost = model->predict({0, 1, 7}, 1000, 1).cost_ns;
        run.store().ended(model);
    }  // waits for the write
    Run run(folder);
    const auto model = run.store().open(kDataset, kSamples, pipeline_of(64));
    run.wait_for(*model);
    assert_int_equal(model->history().known(), kSamples);
    assert_true(model->predict({0, 1, 7}, 1000, 1).cost_ns == cost);
}

void a_model_whose_stream_is_still_there_is_kept_at_the_daemons_end(void** state) {
    const std::string& folder = *static_cast<std::string*>(*state);
    std::shared_ptr<CostModel> outlives;
    {
        Run run(folder);
        outlives = run.store().open(kDataset, kSamples, pipeline_of(64));
        run.wait_for(*outlives);
        learn(*outlives, kSamples / 2);
    }
    Run run(folder);
    const auto model = run.store().open(kDataset, kSamples, pipeline_of(64));
    run.wait_for(*model);
    assert_int_equal(model->history().known(), kSamples / 2);
}

void nothing_is_written_where_nothing_was_learned(void** state) {
    const std::string& folder = *static_cast<std::string*>(*state);
    {
        Run run(folder);
        const auto model = run.store().open(kDataset, kSamples, pipeline_of(64));
        run.wait_for(*model);
        run.store().ended(model);
    }
    assert_true(fs::is_empty(folder));
}

// The thread reads a history while the conductor writes it: what ThreadSanitizer looks at.
void a_model_may_be_written_while_it_learns(void** state) {
    const std::string& folder = *static_cast<std::string*>(*state);
    constexpr std::uint64_t kMany = 100'000;
    {
        Run run(folder);
        const auto model = run.store().open(kDataset, kMany, pipeline_of(64));
        run.wait_for(*model);
        for (int round = 0; round < 5; ++round) {
            learn(*model, kMany);
            run.store().ended(model);
        }
    }
    Run run(folder);
    const auto model = run.store().open(kDataset, kMany, pipeline_of(64));
    run.wait_for(*model);
    assert_int_equal(model->history().known(), kMany);
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_opens_the_same_dataset_and_pipeline_shares_a_model, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(users_learn_apart_and_each_finds_the_own_again, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_model_is_ready_when_its_file_has_been_read_and_not_before,
                                        make_folder, remove_folder),
        cmocka_unit_test(without_a_folder_a_model_is_ready_at_once),
        cmocka_unit_test_setup_teardown(what_was_learned_is_there_in_the_next_run, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_model_whose_stream_is_still_there_is_kept_at_the_daemons_end,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(nothing_is_written_where_nothing_was_learned, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_model_may_be_written_while_it_learns, make_folder, remove_folder),
    };
    return cmocka_run_group_tests_name("predict/store", tests, nullptr, nullptr);
}
