// Assembler threads: every row that is submitted is written and comes back once, whatever the number of
// threads, and what was submitted is finished before the assembler goes.
#include "daemon/assemble/assembler.h"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/cmocka_cpp.h"

namespace sl {
namespace {

constexpr std::uint32_t kSide = 12;
constexpr std::uint32_t kChannels = 3;
constexpr std::uint32_t kPixels = kSide * kSide;
constexpr std::uint32_t kElements = kPixels * kChannels;
#if defined(__SANITIZE_THREAD__)
constexpr std::uint32_t kRows = 4'000;
#else
constexpr std::uint32_t kRows = 40'000;
#endif
constexpr std::uint32_t kSamples = 64;  // different pictures; rows take them in turn

struct SmallFields {
    std::int64_t label = -1;
    std::uint64_t id = ~std::uint64_t{0};
    std::uint8_t valid = 9;
    sl_shm_sample_info info{};
    std::int32_t crop_box[4] = {-1, -1, -1, -1};
    std::uint8_t flip = 9;
};

// A batch tensor of kRows float rows with its small fields, and pictures to fill it from.
class Batch {
  public:
    Batch() : images_(std::size_t{kRows} * kElements, -7.0F), fields_(kRows), table_(new NormalizeTable) {
        make_normalize_table(Pipeline{}, *table_);
        for (std::uint32_t s = 0; s < kSamples; ++s) {
            std::vector<std::uint8_t> sample(kElements);
            for (std::uint32_t i = 0; i < kElements; ++i)
                sample[i] = static_cast<std::uint8_t>(s * 37 + i * 11);
            samples_.push_back(std::move(sample));
        }
    }

    static bool is_placeholder(std::uint32_t row) { return row % 17 == 5; }
    static bool explains(std::uint32_t row) { return row % 2 == 0; }

    RowJob job(std::uint32_t row) {
        RowJob job;
        job.tag = row + 0x500000000ULL;
        if (!is_placeholder(row)) job.sample = samples_[row % kSamples].data();
        job.table = table_.get();
        job.target = {image(row), kSide, kSide, kChannels, Dtype::kFloat32, Layout::kNchw};
        SmallFields& fields = fields_[row];
        job.fields = {&fields.label, &fields.id, &fields.valid, &fields.info, nullptr, nullptr};
        if (explains(row)) {
            job.fields.crop_box = fields.crop_box;
            job.fields.flip = &fields.flip;
        }
        job.label = 3 * row;
        job.info.sample_id = row + 1000;
        job.info.planned_id = row + 2000;
        job.info.valid = is_placeholder(row) ? 0 : 1;
        for (std::int32_t i = 0; i < 4; ++i)
            job.crop_box[i] = static_cast<std::int32_t>(row) + i;
        job.flip = row % 3 == 0 ? 1 : 0;
        return job;
    }

    // Whether the row holds its picture (or zeros), channel by channel, and nothing else.
    [[nodiscard]] bool image_is_right(std::uint32_t row) const {
        const float* got = images_.data() + std::size_t{row} * kElements;
        const std::vector<std::uint8_t>& sample = samples_[row % kSamples];
        for (std::uint32_t c = 0; c < kChannels; ++c) {
            for (std::uint32_t p = 0; p < kPixels; ++p) {
                const float wanted =
                    is_placeholder(row) ? 0.0F : static_cast<float>(sample[p * kChannels + c]) / 255.0F;
                if (got[c * kPixels + p] != wanted) return false;
            }
        }
        return true;
    }

    [[nodiscard]] bool fields_are_right(std::uint32_t row) const {
        const SmallFields& f = fields_[row];
        const bool small = f.label == 3 * std::int64_t{row} && f.id == row + 1000 &&
                           f.valid == (is_placeholder(row) ? 0 : 1) && f.info.sample_id == row + 1000 &&
                           f.info.planned_id == row + 2000;
        const std::int32_t box = explains(row) ? static_cast<std::int32_t>(row) + 3 : -1;
        const std::uint8_t flip = explains(row) ? (row % 3 == 0 ? 1 : 0) : 9;
        return small && f.crop_box[3] == box && f.flip == flip;
    }

    [[nodiscard]] bool untouched(std::uint32_t row) const {
        return images_[std::size_t{row} * kElements] == -7.0F && fields_[row].valid == 9;
    }

    [[nodiscard]] std::uint32_t wrong_rows() const {
        std::uint32_t wrong = 0;
        for (std::uint32_t row = 0; row < kRows; ++row)
            wrong += image_is_right(row) && fields_are_right(row) ? 0 : 1;
        return wrong;
    }

  private:
    float* image(std::uint32_t row) { return images_.data() + std::size_t{row} * kElements; }

    std::vector<float> images_;
    std::vector<SmallFields> fields_;
    std::vector<std::vector<std::uint8_t>> samples_;
    std::unique_ptr<NormalizeTable> table_;
};

std::unique_ptr<Assembler> start(unsigned threads) {
    auto assembler = Assembler::start(threads);
    if (!assembler) fail_msg("%s", assembler.error().message.c_str());
    return std::move(*assembler);
}

bool wait_done(const Assembler& assembler) {
    pollfd entry{assembler.event_fd(), POLLIN, 0};
    return ::poll(&entry, 1, 20000) == 1;
}

// Submits all rows, in runs of different lengths, and sleeps on the event descriptor for their tags.
void every_row_comes_back_once(unsigned threads) {
    Batch batch;
    auto assembler = start(threads);
    std::vector<std::uint32_t> seen(kRows);
    std::vector<RowDone> rows;
    std::uint32_t returned = 0;
    std::uint32_t wrong = 0;
    std::uint32_t submitted = 0;
    while (returned < kRows) {
        for (std::uint32_t run = submitted % 97 + 1; run > 0 && submitted < kRows; --run) {
            assembler->submit(batch.job(submitted++));
        }
        assembler->flush();
        assert_true(wait_done(*assembler));
        rows.clear();
        assembler->reap(rows);
        for (const RowDone& done : rows) {
            const auto row = static_cast<std::uint32_t>(done.tag - 0x500000000ULL);
            assert_true(row < kRows);
            assert_true(done.thread < threads && done.begin_ns <= done.end_ns);
            ++seen[row];
            // Written by the time its tag comes back, not later.
            wrong += batch.image_is_right(row) && batch.fields_are_right(row) ? 0 : 1;
        }
        returned += static_cast<std::uint32_t>(rows.size());
    }
    assert_int_equal(wrong, 0);
    assert_int_equal(std::ranges::count(seen, 1U), kRows);
    rows.clear();
    assembler->reap(rows);
    assert_true(rows.empty());
}

void with_one_thread_every_row_comes_back_once_and_is_written(void**) {
    every_row_comes_back_once(1);
}
void with_four_threads_every_row_comes_back_once_and_is_written(void**) {
    every_row_comes_back_once(4);
}

void nothing_is_written_before_the_flush(void**) {
    Batch batch;
    auto assembler = start(2);
    for (std::uint32_t row = 0; row < 100; ++row)
        assembler->submit(batch.job(row));
    pollfd entry{assembler->event_fd(), POLLIN, 0};
    assert_int_equal(::poll(&entry, 1, 0), 0);
    for (std::uint32_t row = 0; row < 100; ++row)
        assert_true(batch.untouched(row));
    assembler->flush();
    assert_true(wait_done(*assembler));
}

void a_row_at_a_time_is_woken_for_as_well(void**) {
    Batch batch;
    auto assembler = start(4);
    std::vector<RowDone> rows;
    for (std::uint32_t row = 0; row < 2000; ++row) {
        assembler->submit(batch.job(row));
        assembler->flush();
        while (rows.size() <= row) {
            assert_true(wait_done(*assembler));
            assembler->reap(rows);
        }
        assert_true(rows.back().tag == batch.job(row).tag);
    }
}

void what_was_submitted_is_finished_before_the_assembler_goes(void**) {
    for (unsigned threads : {1U, 4U}) {
        Batch batch;
        {
            auto assembler = start(threads);
            for (std::uint32_t row = 0; row < kRows / 2; ++row)
                assembler->submit(batch.job(row));
            assembler->flush();
            for (std::uint32_t row = kRows / 2; row < kRows; ++row)
                assembler->submit(batch.job(row));
        }
        assert_int_equal(batch.wrong_rows(), 0);
    }
}

void an_assembler_with_nothing_to_do_goes_at_once(void**) {
    for (int i = 0; i < 100; ++i)
        start(4).reset();
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(with_one_thread_every_row_comes_back_once_and_is_written),
        cmocka_unit_test(with_four_threads_every_row_comes_back_once_and_is_written),
        cmocka_unit_test(nothing_is_written_before_the_flush),
        cmocka_unit_test(a_row_at_a_time_is_woken_for_as_well),
        cmocka_unit_test(what_was_submitted_is_finished_before_the_assembler_goes),
        cmocka_unit_test(an_assembler_with_nothing_to_do_goes_at_once),
    };
    return cmocka_run_group_tests_name("assemble/assembler", tests, nullptr, nullptr);
}
