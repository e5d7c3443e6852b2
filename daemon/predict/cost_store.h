// All cost models of a daemon: one for each user, dataset and pipeline, shared by the streams over both, and
// kept as files between runs.
//
// On the conductor thread, which never waits for a file: a thread of its own reads and writes them, and
// answers through the event loop. A stream that opens takes no sample in hand until its model is ready, which
// is when the file has been read, or a second has passed (a file system that does not answer costs
// predictions, not the stream). A model is written when a stream over it ends, and once a minute while there
// is something new. Failure is one line in the log.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "daemon/pool/event_loop.h"
#include "daemon/predict/cost_file.h"
#include "shm/fd.h"

namespace sl {

class CostStore {
  public:
    // `folder` "": nothing is kept beyond this process.
    static Result<std::unique_ptr<CostStore>> create(EventLoop& loop, const std::string& folder);
    // Waits a moment for the last write; a file system that does not answer is left to the thread.
    ~CostStore();

    // The model, known already or begun; `is_ready` says when it may be used. `learned_by`: a user other than
    // the daemon's own, whose workers' word is believed for that user's streams only.
    std::shared_ptr<CostModel> open(std::uint64_t dataset, std::uint64_t samples, const Pipeline& pipeline,
                                    std::optional<uid_t> learned_by = {});
    [[nodiscard]] bool is_ready(const CostModel& model) const;
    // A stream over the model has ended.
    void ended(const std::shared_ptr<CostModel>& model);

  private:
    struct Entry {
        CostKey key;
        std::weak_ptr<CostModel> model;
        std::uint64_t saved_at = 0;  // observations
        bool ready = true;
    };
    // To the thread; with a model: to write it.
    struct Job {
        CostKey key;
        std::shared_ptr<const CostModel> model;
        CostModel::Learned learned;
    };
    struct Answer {
        CostKey key;
        Result<KeptCosts> kept;
    };
    struct State {
        std::string folder;
        UniqueFd event;
        std::mutex mutex;
        std::deque<Job> jobs;
        std::vector<Answer> answers;
        bool stopping = false;
        bool ended = true;  // the thread
        std::condition_variable news;
        std::condition_variable at_end;
    };

    CostStore(EventLoop& loop, std::shared_ptr<State> state) : loop_(loop), state_(std::move(state)) {}
    void start_thread();
    static void work_on(State& state);
    static void work(State& state, const Job& job);
    void give(Job job);
    void take_answers();
    void take(Answer& answer);
    void save(Entry& entry, const std::shared_ptr<CostModel>& model);
    void save_now_and_then();
    Entry* entry_of(const CostKey& key);

    EventLoop& loop_;
    std::shared_ptr<State> state_;
    std::vector<Entry> entries_;
    EventLoop::TimerId timer_ = 0;  // while there are models to write
};

}  // namespace sl
