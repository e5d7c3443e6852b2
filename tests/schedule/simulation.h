// A discrete-event simulation of loading: workers, streams with costs, consumers with a pace.
//
// Used by the property tests here and by bench/schedule_sim. The loader under test says which sample a worker
// starts and when a batch can be taken; time is simulated, so results are the same everywhere. Not
// thread-safe. A loader that stops although samples are left shows as an Outcome that is not complete.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <queue>
#include <vector>

namespace sl::sim {

inline constexpr double kNever = std::numeric_limits<double>::infinity();

// One job: what its samples cost (in ns) and how it consumes.
struct Workload {
    std::vector<double> costs;  // in plan order; whole batches
    std::uint32_t batch = 16;
    double step_ns = 0;   // of the consumer; 0 takes at once
    double opens_at = 0;  // ns
    double closes_at = kNever;
    std::uint64_t stops_after = UINT64_MAX;  // batches; then the consumer takes no more

    [[nodiscard]] std::uint64_t batches() const { return costs.size() / batch; }
};

struct Job {
    std::uint32_t stream = 0;
    std::uint32_t sample = 0;
};

class Loader {
  public:
    virtual ~Loader() = default;
    virtual void open(std::uint32_t stream, double now) = 0;
    virtual void close(std::uint32_t stream, double now) = 0;
    // What the free worker starts; nothing leaves it idle until something happens.
    virtual std::optional<Job> next(std::uint32_t worker, double now) = 0;
    virtual void ended(std::uint32_t worker, const Job& job, double now) = 0;
    // Whether the stream's next batch can be taken; take() takes it.
    [[nodiscard]] virtual bool ready(std::uint32_t stream) const = 0;
    virtual void take(std::uint32_t stream, bool waited, double now) = 0;
    // Whether a worker may find something where another has found nothing.
    [[nodiscard]] virtual bool workers_differ() const { return false; }
    // When something happens in the loader by itself (a read returns); kNever if nothing will.
    [[nodiscard]] virtual double wakes_at() const { return kNever; }
};

// What became of one stream.
struct Outcome {
    std::uint64_t taken = 0;    // batches
    std::uint64_t started = 0;  // samples
    double ended_at = 0;        // when the last batch was taken
    double work = 0;            // of started samples
    double waited = 0;          // by the consumer, after the first batch
    double longest_wait = 0;    // after the first batch
    double most_buffered = 0;   // batches: done and not taken
    double mean_buffered = 0;   // over time, from the first take to the last
    std::vector<double> taken_at;
};

class Simulation {
  public:
    Simulation(std::uint32_t workers, const std::vector<Workload>& workloads, Loader& loader);

    // Until nothing happens any more, or `until`.
    std::vector<Outcome> run(double until = kNever);

  private:
    enum class What : std::uint8_t { kOpen, kClose, kConsumer, kWorker, kLoader };
    struct Event {
        double time = 0;
        std::uint64_t order = 0;  // ties are settled by it
        What what = What::kLoader;
        std::uint32_t index = 0;
        Job job;
        bool operator>(const Event& other) const {
            return time != other.time ? time > other.time : order > other.order;
        }
    };
    struct Stream {
        bool open = false;
        std::optional<double> ready_since;  // the consumer waits
        std::uint64_t done = 0;             // samples
        double buffered_since = 0;
        double buffered_area = 0;
    };

    void push(double time, What what, std::uint32_t index, const Job& job = {});
    void handle(const Event& event);
    void sample_done(const Event& event);
    void consume(std::uint32_t stream);
    void start_workers();
    void note_buffer(std::uint32_t stream);
    [[nodiscard]] double buffered(std::uint32_t stream) const;

    const std::vector<Workload>& workloads_;
    Loader& loader_;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
    std::vector<std::uint32_t> idle_;
    std::vector<Stream> streams_;
    std::vector<Outcome> outcomes_;
    std::uint64_t order_ = 0;
    double now_ = 0;
    double woken_for_ = -1;
};

}  // namespace sl::sim
