// The conductor: moves every task of every stream from the plan to a row of a batch.
//
// One per daemon, on the event loop's thread; it owns the tasks, the reader, the crews of workers with their
// domains and the assembler, and is the only one that changes their state. It never blocks: readers,
// workers and assembler threads answer through their rings and event descriptors, and turn() does all that
// can be done now. What each step means is told in docs/how-a-sample-travels.md.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/observe/trace.h"
#include "daemon/pool/event_loop.h"
#include "daemon/predict/cost_store.h"
#include "daemon/predict/crew_costs.h"
#include "daemon/stream/crew.h"
#include "daemon/stream/failure_log.h"
#include "daemon/stream/memory_budget.h"
#include "daemon/stream/opening.h"
#include "daemon/stream/stream.h"
#include "io/reader.h"
#include "shm/wake.h"

namespace sl {

struct ConductorOptions {
    WorkerProgram worker_program;
    std::uint32_t workers = 1;       // of each user with native streams
    std::uint32_t cores = 1;         // that they share
    std::uint64_t memory_bytes = 0;  // budget for all segments
    std::uint64_t input_bytes = 0;   // of it, for file bytes, for each of them
    ReaderOptions reader;
    std::chrono::milliseconds read_timeout{30'000};  // then an open or a read is given up
    bool predict =
        true;  // false: every sample is taken for an average one, to see what predictions are worth
    std::string quarantine_file;  // of the daemon's own user; "": forgotten with the daemon
    std::string cost_folder;      // "": so is what samples cost
    std::uint64_t boot_id = 0;
};

class Conductor {
  public:
    static Result<std::unique_ptr<Conductor>> create(EventLoop& loop, const ConductorOptions& options);
    ~Conductor();

    // Adds a stream for a dataset that has been scanned, and tells `done` of it; it starts then. Errors at
    // once, streams mostly once their memory has been made.
    void open(std::shared_ptr<Opening> opening);
    // Room in the budget for an order of items, before there is a stream.
    Result<MemoryBudget::Share> reserve_order(std::uint64_t bytes, const MemoryBudget::Account& account) {
        return budget_.reserve(bytes, "this order of items", account);
    }
    // Ends a stream. Its memory goes as soon as nothing in flight refers to it; then `on_gone` is called.
    void close(Stream* stream, std::function<void()> on_gone = {});
    // A session has ended, and its streams are closed.
    void owner_gone(std::uint64_t session);
    // Takes a guest worker into its crew and answers it; on an error it may have been hung up on already.
    Result<void> attach_guest(Guest& guest);

    [[nodiscard]] const std::map<std::uint64_t, std::unique_ptr<Stream>>& streams() const { return streams_; }
    [[nodiscard]] const Crews& crews() const { return crews_; }
    [[nodiscard]] const Reader& reader() const { return *reader_; }
    // The daemon's own user's.
    [[nodiscard]] Quarantine& quarantine() { return *crews_.home().domain->quarantine; }
    // Ends all there is to end. False if reads have not returned: then their buffers and threads are left to
    // the process's end, which must not run destructors of what they use.
    bool shut_down();
    [[nodiscard]] const std::string& reader_note() const { return reader_note_; }
    [[nodiscard]] const MemoryBudget& budget() const { return budget_; }
    // What clients keep of streams that are gone; part of the budget.
    [[nodiscard]] KeptMemory& kept_memory() { return kept_memory_; }
    [[nodiscard]] Background& background() { return *background_; }
    [[nodiscard]] std::uint64_t boot_id() const { return options_.boot_id; }
    [[nodiscard]] bool sandboxed() const { return options_.worker_program.sandbox; }
    [[nodiscard]] const Trace& trace() const { return trace_; }

  private:
    Conductor(EventLoop& loop, const ConductorOptions& options, std::unique_ptr<Background> background);

    // The loop's hooks.
    bool before_sleep();
    void after_sleep();
    void set_sleeping(bool sleeping);
    // A sample whose worker dies of a fault of its own so often is poison.
    static constexpr std::uint32_t kMaxCrashes = 2;

    // Everything that can be done now, for a bounded time; true if there is more.
    bool turn();
    bool collect();
    static void tell_scheduler(const Stream& stream);

    // opening.cpp
    Result<void> begin(const std::shared_ptr<Opening>& opening);
    Result<MemoryBudget::Share> reserve(std::uint64_t bytes, const Owner& owner, const Crew* crew);
    void finish(Opening& opening);
    Result<Stream*> add(Opening& opening);

    // crew_streams.cpp: who does which stream's jobs
    WorkerPoolEvents pool_events(Crew& crew);
    void enlist(Stream& stream, Crew& crew, const Owner& owner);
    void stop_streams(const Crew& crew, const Error& error);

    // intake.cpp: plan -> open -> size -> lane -> read -> runnable
    void admit(Stream& stream);
    void start(Task& task);
    void open_file(Task& task);
    void on_read_completion(const ReadCompletion& completion);
    void on_open(Task& task, const ReadCompletion& completion);
    void on_size(Task& task, std::uint64_t bytes);
    void read_file(Task& task);
    void start_reads(Stream& stream);
    Offer start_read(Stream& stream, Task& task);
    Offer start_item(Stream& stream, Task& task);
    void on_read(Task& task, const ReadCompletion& completion);
    static Quarantine& quarantine_of(const Task& task);
    static Quarantine::Attempt attempt_of(const Task& task, std::uint64_t size);
    void make_runnable(Task& task);

    // predictions.cpp: what a sample will cost, the first time and with what has been learned since. The
    // model of a dataset's costs is let go of when the stream goes.
    std::shared_ptr<CostModel> costs_of(const Spec& spec, const Dataset& dataset, const Crew& crew);
    void let_go_of_costs(const std::shared_ptr<CostModel>& model);
    void predict(Task& task);
    bool renew(Task& task);
    void renew_waiting(Stream& stream);
    void ask_headers(Crew& crew);
    void on_header(const sl_shm_completion& completion);
    void header_ended(std::uint64_t tag);

    // hung_reads.cpp: opens and reads that do not return in time
    void watch_reads();
    void give_up_reads();
    void abandon(Task& task);
    void returned_late(const ReadCompletion& completion);

    // work.cpp: runnable -> worker -> done, and what can go wrong there
    void dispatch(Crew& crew);
    void look_again(Crew& crew);
    void starved(const Crew& crew);
    void on_completion(Crew& crew, const sl_shm_completion& completion, std::size_t worker);
    static SampleError error_of(const Task& task, const sl_shm_completion& completion);
    static SampleError lost_guest_error(const Task& task, const LostJob& lost);
    void on_lost(Crew& crew, const LostJob& lost);
    void fail_at_decode(Task& task, SampleError error);
    void fail(Task& task, SampleError error);

    // collate_jobs.cpp: whole batch -> guest -> collated
    bool give_collate(Crew& crew);
    static void on_collated(Task& task, const sl_shm_completion& completion);
    static void on_collate_lost(Task& task, const LostJob& lost);

    // output.cpp: done -> row -> batch
    void finish(Task& task);
    void assemble(Task& task);
    void flush_rows();
    [[nodiscard]] bool workers_busy() const;
    void on_row(const RowDone& row);
    void advance(Stream& stream);

    // tracing.cpp: what has ended, for the trace
    void trace_read(const Task& task, const ReadCompletion& completion);
    void trace_decode(Crew& crew, const Task& task, const sl_shm_completion& completion, std::size_t worker);
    void trace_collate(const Task& task, const sl_shm_completion& completion, std::size_t worker);
    void trace_row(const Task& task, const RowDone& row);

    // What a task holds.
    void close_file(Task& task);
    void release_input(Task& task);
    void release_slot(Task& task);
    void drop(Task& task);
    void sweep();

    // A read whose task has gone on without it: what it holds until the kernel lets go.
    struct LateRead {
        std::shared_ptr<Domain> domain;
        int fd = -1;
        std::uint64_t input_offset = 0;
        std::uint64_t bytes = 0;
        Mount mount;
        bool hung = false;  // given up at its deadline, not for its stream's end
    };

    // A header job whose task has gone on without it: the buffer that its worker may be reading.
    struct LateHeader {
        std::shared_ptr<Domain> domain;
        std::uint64_t input_offset = 0;
        std::uint64_t bytes = 0;
    };

    EventLoop& loop_;
    ConductorOptions options_;
    MemoryBudget budget_;
    std::unique_ptr<Background> background_;
    KeptMemory kept_memory_;
    std::unique_ptr<Reader> reader_;
    std::string reader_note_;
    Trace trace_;
    std::unique_ptr<Assembler> assembler_;
    TaskTable tasks_;
    std::unordered_map<std::uint64_t, LateRead> late_reads_;  // by tag
    bool watching_reads_ = false;
    std::vector<std::uint64_t> overdue_;
    std::unordered_map<std::uint64_t, LateHeader> late_headers_;  // by tag
    FailureLog failure_log_;
    std::unique_ptr<CostStore> costs_;
    CrewCosts crew_costs_;
    std::map<std::uint64_t, std::unique_ptr<Stream>> streams_;
    Crews crews_;
    std::uint64_t next_stream_id_ = 1;
    std::uint32_t max_files_;
    std::uint32_t files_held_ = 0;  // descriptors of tasks
    std::uint32_t opens_ = 0;       // asked of the reader and not answered
    bool needs_sweep_ = false;
    std::map<std::uint64_t, std::function<void()>> on_gone_;  // of streams that are closing
    bool rows_urgent_ = false;
    std::vector<ReadCompletion> reads_;
    std::vector<RowDone> rows_;
};

}  // namespace sl
