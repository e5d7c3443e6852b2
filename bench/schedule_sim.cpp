// The simulator's program: reads one experiment a line ("key=value ..."), prints one JSON object a line. A
// line "picks N" times picks with N samples waiting in each lane.
//
// bench/schedule_sim.py says what to simulate. An unknown key or a run that does not end is an error: exit
// status 2 or 1, with a sentence on stderr.
#include <algorithm>
#include <cmath>
#include <ctime>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <sstream>
#include <string>

#include "tests/schedule/our_loader.h"
#include "tests/schedule/rivals.h"

namespace sl::sim {
namespace {

constexpr double kUnitNs = 1e6;  // a light sample

struct Experiment {
    std::map<std::string, std::string> words{
        {"loader", "ours"},  {"set", "rare"},  {"share", "0.01"}, {"factor", "100"}, {"workers", "8"},
        {"samples", "6400"}, {"batch", "16"},  {"seed", "1"},     {"error", "0"},    {"load", "0.95"},
        {"window", "4"},     {"light", "24"},  {"medium", "8"},   {"heavy", "12"},   {"reserve", "16"},
        {"ring", "3"},       {"horizon", "0"}, {"ready", "0"},    {"steady", "0"},   {"missed", "0"}};

    [[nodiscard]] double number(const std::string& key) const { return std::stod(words.at(key)); }
    [[nodiscard]] std::uint32_t count(const std::string& key) const {
        return static_cast<std::uint32_t>(number(key));
    }
    [[nodiscard]] const std::string& word(const std::string& key) const { return words.at(key); }
};

std::vector<double> make_costs(const Experiment& e, std::mt19937_64& random) {
    const std::string& set = e.word("set");
    std::uniform_real_distribution<double> even(0, 1);
    const double sigma = std::sqrt(std::log(2.0));
    std::lognormal_distribution<double> lognormal(-sigma * sigma / 2, sigma);
    std::normal_distribution<double> near_one(1, 0.15);
    std::vector<double> costs(e.count("samples"));
    for (double& cost : costs) {
        if (set == "lognormal") {
            cost = lognormal(random);
        } else if (set == "constant") {
            cost = std::max(0.5, near_one(random));
        } else {  // some are longer
            cost = even(random) < e.number("share") ? e.number("factor") : 1;
        }
        cost *= kUnitNs;
    }
    return costs;
}

std::vector<double> predict(const Experiment& e, const std::vector<double>& costs, std::mt19937_64& random) {
    std::normal_distribution<double> error(0, 1);
    std::uniform_real_distribution<double> even(0, 1);
    std::vector<double> predicted = costs;
    for (double& cost : predicted) {
        cost *= std::exp(e.number("error") * error(random));
        if (e.number("missed") > 0 && even(random) < e.number("missed")) cost = kUnitNs;
    }
    return predicted;
}

double middle_of(std::vector<double> values) {
    std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
    return values[values.size() / 2];
}

OurOptions our_options(const Experiment& e, const std::vector<double>& costs, std::mt19937_64& random) {
    OurOptions options;
    options.slots = {{e.count("light"), e.count("medium"), e.count("heavy")}, e.count("reserve")};
    options.ring = e.count("ring");
    options.horizon = e.count("horizon");
    options.ready = e.count("ready") != 0;
    options.predicted = predict(e, costs, random);
    const double median = middle_of(costs);
    options.light_ns = 4 * median;
    options.medium_ns = 16 * median;
    return options;
}

std::unique_ptr<Loader> make_loader(const Experiment& e, const std::vector<Workload>& workloads,
                                    std::mt19937_64& random) {
    const std::string& name = e.word("loader");
    const std::uint32_t workers = e.count("workers");
    const Workload& workload = workloads.front();
    if (name == "classic_in_order") return std::make_unique<ClassicLoader>(workers, workload, true);
    if (name == "classic_unordered") return std::make_unique<ClassicLoader>(workers, workload, false);
    if (name == "first_come") return std::make_unique<WindowLoader>(workload, e.count("window"), false);
    if (name == "fifo") return std::make_unique<WindowLoader>(workload, e.count("window"), true);
    if (name == "simple") {
        const SimpleRule::Limits limits{workers, e.count("window"), e.count("horizon")};
        return std::make_unique<SimpleRule>(workload, limits, predict(e, workload.costs, random));
    }
    std::vector<OurOptions> options{our_options(e, workload.costs, random)};
    return std::make_unique<OurLoader>(workers, workloads, std::move(options));
}

// Of the ideal: all workers busy all the time. `steady` leaves out the first quarter of the batches, in which
// buffers fill and nothing could have been started early, and the last eighth.
double share_of_ideal(const Experiment& e, const Workload& workload, const Outcome& outcome) {
    const double workers = e.number("workers");
    if (e.count("steady") == 0) {
        const double work = std::accumulate(workload.costs.begin(), workload.costs.end(), 0.0);
        return work / workers / outcome.ended_at;
    }
    const std::size_t from = workload.batches() / 4;
    const std::size_t to = workload.batches() - workload.batches() / 8;
    const double work = std::accumulate(workload.costs.begin(), workload.costs.end(), 0.0) /
                        static_cast<double>(workload.batches()) * static_cast<double>(to - from);
    return work / workers / (outcome.taken_at[to] - outcome.taken_at[from]);
}

int run(const Experiment& e) {
    std::mt19937_64 random(e.count("seed"));
    std::vector<Workload> workloads(1);
    Workload& workload = workloads.front();
    workload.batch = e.count("batch");
    workload.costs = make_costs(e, random);
    const double mean = std::accumulate(workload.costs.begin(), workload.costs.end(), 0.0) /
                        static_cast<double>(workload.costs.size());
    workload.step_ns = workload.batch * mean / e.number("workers") / e.number("load");
    const auto loader = make_loader(e, workloads, random);
    const Outcome outcome = Simulation(e.count("workers"), workloads, *loader).run().front();
    if (outcome.taken != workload.batches()) {
        std::cerr << "stopped after " << outcome.taken << " of " << workload.batches() << " batches\n";
        return 1;
    }
    std::cout << "{\"share\": " << share_of_ideal(e, workload, outcome)
              << ", \"most_buffered\": " << outcome.most_buffered
              << ", \"mean_buffered\": " << outcome.mean_buffered
              << ", \"longest_wait_steps\": " << outcome.longest_wait / workload.step_ns
              << ", \"waited_share\": " << outcome.waited / outcome.ended_at << "}\n";
    return 0;
}

// What a pick costs with `waiting` samples in each lane of two streams and 64 workers: the mean over 200,000.
void time_picks(std::uint32_t waiting) {
    constexpr std::uint32_t kPicks = 200'000;
    Scheduler scheduler(64);
    std::uint32_t next = 0;
    auto add = [&](std::uint64_t stream, Lane lane) {
        const double cost = kUnitNs * (lane == Lane::kLight    ? 1
                                       : lane == Lane::kMedium ? 8
                                                               : 100 + next % 50);
        scheduler.add(stream, lane, {next / 64, next % 64, next, cost});
        ++next;
    };
    for (std::uint64_t stream : {1, 2}) {
        scheduler.add_stream(stream, {.batch_size = 64});
        for (std::uint32_t i = 0; i < waiting; ++i) {
            for (Lane lane : {Lane::kLight, Lane::kMedium, Lane::kHeavy})
                add(stream, lane);
        }
    }
    const std::clock_t begin = std::clock();  // of the CPU: other programs do not count
    for (std::uint32_t i = 0; i < kPicks; ++i) {
        const Pick pick = *scheduler.pick();
        scheduler.finished(pick.runnable.task, kUnitNs);
        add(pick.stream, pick.lane);
    }
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    std::cout << "{\"pick_ns\": " << seconds * 1e9 / kPicks << "}\n";
}

int read_and_run() {
    for (std::string line; std::getline(std::cin, line);) {
        if (line.starts_with("picks ")) {
            time_picks(static_cast<std::uint32_t>(std::stoul(line.substr(6))));
            continue;
        }
        Experiment experiment;
        std::istringstream words(line);
        for (std::string word; words >> word;) {
            const std::size_t at = word.find('=');
            const auto known = experiment.words.find(word.substr(0, at));
            if (at == std::string::npos || known == experiment.words.end()) {
                std::cerr << "unknown word: " << word << "\n";
                return 2;
            }
            known->second = word.substr(at + 1);
        }
        if (const int status = run(experiment); status != 0) {
            std::cerr << "in: " << line << "\n";
            return status;
        }
    }
    return 0;
}

}  // namespace
}  // namespace sl::sim

int main() {
    return sl::sim::read_and_run();
}
