// How other loaders choose, in the simulation: for comparison only, in tests and in bench/schedule_sim. One
// stream each. See simulation.h.
#pragma once

#include <deque>
#include <set>
#include <vector>

#include "tests/schedule/simulation.h"

namespace sl::sim {

// Workers that make whole batches, each asked for two ahead, as torch's DataLoader does. In order, batch k is
// worker k mod workers'; unordered, whoever has least gets the next one.
class ClassicLoader : public Loader {
  public:
    ClassicLoader(std::uint32_t workers, const Workload& workload, bool in_order);

    void open(std::uint32_t, double) override {}
    void close(std::uint32_t, double) override {}
    std::optional<Job> next(std::uint32_t worker, double now) override;
    void ended(std::uint32_t worker, const Job& job, double now) override;
    [[nodiscard]] bool ready(std::uint32_t stream) const override;
    void take(std::uint32_t stream, bool waited, double now) override;
    [[nodiscard]] bool workers_differ() const override { return true; }

  private:
    void ask(std::uint32_t worker);

    const Workload& workload_;
    bool in_order_;
    std::vector<std::deque<std::uint32_t>> asked_;  // batches, of each worker
    std::vector<std::uint32_t> row_;                // of each worker's first batch: the next to make
    std::set<std::uint32_t> whole_;
    std::uint32_t next_batch_ = 0;
    std::uint32_t next_worker_ = 0;
    std::uint32_t taken_ = 0;
};

// Samples one by one in plan order, with memory for `window` batches. Strict waits for the planned members;
// otherwise a batch is whoever is done first.
class WindowLoader : public Loader {
  public:
    WindowLoader(const Workload& workload, std::uint32_t window, bool strict);

    void open(std::uint32_t, double) override {}
    void close(std::uint32_t, double) override {}
    std::optional<Job> next(std::uint32_t worker, double now) override;
    void ended(std::uint32_t worker, const Job& job, double now) override;
    [[nodiscard]] bool ready(std::uint32_t stream) const override;
    void take(std::uint32_t stream, bool waited, double now) override;

  private:
    const Workload& workload_;
    std::uint32_t window_;
    bool strict_;
    std::uint32_t next_ = 0;
    std::uint32_t done_ = 0;
    std::uint32_t taken_ = 0;
    std::vector<std::uint32_t> left_;
};

// The rule that this project began with, for comparison: of all samples of the next `horizon` batches the one
// with the least (due - predicted cost), due by the predicted work before it or by the consumer's steps.
// Memory for `window` batches, not parted in lanes; beyond it only the next batch's own samples start. It
// looks at every sample of the horizon for each start.
class SimpleRule : public Loader {
  public:
    struct Limits {
        std::uint32_t workers = 1;
        std::uint32_t window = 5;
        std::uint32_t horizon = 40;
    };
    SimpleRule(const Workload& workload, const Limits& limits, std::vector<double> predicted);

    void open(std::uint32_t, double) override {}
    void close(std::uint32_t, double) override {}
    std::optional<Job> next(std::uint32_t worker, double now) override;
    void ended(std::uint32_t worker, const Job& job, double now) override;
    [[nodiscard]] bool ready(std::uint32_t stream) const override;
    void take(std::uint32_t stream, bool waited, double now) override;

  private:
    [[nodiscard]] std::optional<std::uint32_t> of_next_batch() const;
    [[nodiscard]] std::optional<std::uint32_t> earliest_latest_start() const;

    const Workload& workload_;
    Limits limits_;
    std::vector<double> predicted_;
    std::vector<bool> begun_;
    std::vector<std::uint32_t> left_;
    std::uint32_t frontier_ = 0;  // all before it have begun
    std::uint32_t held_ = 0;      // samples begun and not taken
    std::uint32_t taken_ = 0;
};

}  // namespace sl::sim
