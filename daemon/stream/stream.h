// A stream: one ordered sequence of batches for one client, from plan to batch ring.
//
// Owned by the conductor thread, which moves the tasks; the stream knows their places. It walks the plan
// (epoch after epoch, without a drain at the seam), keeps the window of steps that are under way, opens an
// output for each batch in order while the ring has slots, says which row of which output a finished sample
// goes to, and publishes outputs in order.
//
// A stream may begin at a saved position: the walk starts there, as arithmetic, and steps keep their numbers
// (batches since epoch 0). The first epoch's account then covers what is left of it.
//
// `strict` and `ready` differ in place() only: strict gives a sample the row it was planned for; ready gives
// it the next row of the first output of its epoch that is not full. Either way each planned sample is
// delivered once an epoch, and no sample leaves its epoch.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/assemble/assembler.h"
#include "daemon/observe/slowest.h"
#include "daemon/plan/spec.h"
#include "daemon/predict/predictor.h"
#include "daemon/schedule/admission.h"
#include "daemon/stream/batch_ring.h"
#include "daemon/stream/dataset.h"
#include "daemon/stream/kept_memory.h"
#include "daemon/stream/ledger.h"
#include "daemon/stream/memory_budget.h"
#include "daemon/stream/sample_slots.h"
#include "daemon/stream/task.h"

namespace sl {

struct Crew;

class Stream {
  public:
    // What a client asks for beside the spec.
    struct Wish {
        std::uint32_t slots = 0;              // of the batch ring; 0: chosen
        std::optional<SavedPosition> resume;  // begin there
        OnChange on_change = OnChange::kRefuse;
        std::uint32_t workers = 1;  // of the daemon
    };
    // Without its memory. Errors: kSpec (no batch, no fixed size, another stream's position), kUnsupported.
    static Result<std::unique_ptr<Stream>> create(const Spec& spec, std::shared_ptr<const Dataset> dataset,
                                                  const RingIdentity& identity, const Wish& wish,
                                                  std::shared_ptr<CostModel> costs);
    // Bytes of shared memory that it will have.
    [[nodiscard]] std::uint64_t needs() const {
        return planned_.segment_bytes + planned_.sample_segment_bytes();
    }
    void own(MemoryBudget::Share reservation) { memory_ = std::move(reservation); }
    // Makes and seals the memory, which takes a while: on any thread, before the stream is used. kNoMemory.
    Result<void> make_memory();
    // What the client and its guests may keep of its memory goes on counting as the user's. Then the stream
    // is nothing more; who made it without an account has no such memory.
    void give_up(KeptMemory& kept);

    // The next planned place, or nothing after the last epoch. Fills in the task's place and sample.
    bool next_place(Task& task);
    // The next substitute for a failing task, or nothing if there is none left.
    bool next_substitute(Task& task);

    // Opens outputs while the ring has slots; true if any was opened.
    bool open_outputs();
    // Gives a finished task its row; false if it must wait for an output. Then it is kept and given back by
    // take_waiting() once an output has been opened.
    bool place(Task& task);
    std::vector<std::uint32_t> take_waiting();
    // Whether every row of the output that a placed task belongs to has been given away.
    [[nodiscard]] bool fully_placed(const Task& task) const;
    // The row job for a task that place() has accepted.
    RowJob row_job(const Task& task, std::uint64_t tag);
    // A row is written.
    void row_done(const Task& task);
    // Policy `fail`: the task's sample stops the stream at its batch; its row stays empty.
    void row_failed(const Task& task, const SampleError& error);
    // Publishes what is whole, in order; at the end of an epoch its account, then the end.
    void publish();
    // Ends the stream with an error now (workers cannot be started, ...).
    void stop(const Error& error);

    // stream_items.cpp: whether the samples are items that guests make, and what that changes.
    [[nodiscard]] bool is_items() const { return dataset_->items() != nullptr; }
    // Whether a place is nobody's: its row stays zero and not valid.
    [[nodiscard]] bool is_nobody(std::uint64_t id) const {
        return is_items() && dataset_->items()->is_nobody(id);
    }
    // What a task's random numbers and its history are kept by; of an item its index and the data set's
    // epoch.
    [[nodiscard]] DrawKey key(const Task& task) const;
    // The row that a guest may write the task's item into, if it has its place already.
    [[nodiscard]] sl_shm_place place_ahead(const Task& task);
    // Whether of an item that is in its row so little is left to write that no thread need be woken.
    [[nodiscard]] bool is_all_but_written(const Task& task) const {
        return task.in_place && !task.placeholder && rest_bytes_ <= kLittle;
    }
    // What stands for a file's size in an item's features.
    [[nodiscard]] std::uint64_t item_cost_bytes(const Task& task) const;
    // What its guest wrote of an item that raised.
    [[nodiscard]] std::string item_text(const Task& task) const;

    // stream_collate.cpp: whole batches that guests collate before they are published. Whether one waits for
    // a guest; the first that does becomes the task.
    [[nodiscard]] bool wants_collating() const;
    void begin_collating(Task& task);
    // What the guest is to do.
    [[nodiscard]] sl_shm_job collate_job(const Task& task, std::uint64_t tag) const;
    // It is done, and so many bytes long; or its guest was lost, and another one is to do it.
    void collated(const Task& task, std::uint64_t bytes);
    void collate_again(const Task& task);
    // It cannot be had: under every policy the stream ends with the error where the batch would be.
    void collate_failed(const Task& task, const SampleError& error);
    // What the guest wrote in the batch's place.
    [[nodiscard]] std::string collate_text(const Task& task, std::uint64_t bytes) const;

    // Record of a sample that failed; counts against the budget when its batch is published.
    void record_failure(Task& task, const SampleError& error);

    // The first step that is not finished: what everybody waits for.
    [[nodiscard]] std::uint64_t front_step() const { return front_step_; }
    // The step from which samples are due: in `ready` the first batch that is not whole may hold any.
    [[nodiscard]] std::uint64_t due_step() const;
    [[nodiscard]] bool planned_all() const { return cursor_epoch_ >= spec_.epochs; }
    [[nodiscard]] bool stopped() const { return stopped_; }
    [[nodiscard]] bool waits_for_consumer() const { return ring_full_; }
    // Time that finished work has waited for the consumer to return a batch, up to now.
    [[nodiscard]] std::uint64_t waited_for_consumer_ns() const;

    [[nodiscard]] std::uint64_t id() const { return identity_.stream_id; }
    [[nodiscard]] const Spec& spec() const { return spec_; }
    [[nodiscard]] const Dataset& dataset() const { return *dataset_; }
    [[nodiscard]] BatchRing& ring() { return ring_; }
    [[nodiscard]] const BatchRing& ring() const { return ring_; }
    [[nodiscard]] SampleSlots& slots() { return slots_; }
    [[nodiscard]] Predictor& predictor() { return predictor_; }
    [[nodiscard]] const Predictor& predictor() const { return predictor_; }
    [[nodiscard]] const Ledger& ledger() const { return ledger_; }
    [[nodiscard]] std::uint64_t memory_bytes() const { return memory_.bytes(); }

    // The conductor's own notes about this stream.
    struct Flow {
        std::uint32_t tasks = 0;        // in the table
        std::uint32_t opening = 0;      // tasks whose bytes are not in memory yet
        std::uint64_t input_bytes = 0;  // in the input buffer
        Admission admission;         // tasks whose size is known and that wait for a slot and an input buffer
        std::uint64_t renew_at = 0;  // observations of the cost model: then predictions are renewed
        bool closing = false;
        Crew* crew = nullptr;  // that does its jobs
        Slowest slowest;
    };
    Flow flow;

  private:
    struct Step {
        std::uint64_t epoch = 0;
        std::uint32_t unfinished = 0;
    };
    struct Row {
        std::uint64_t id = 0;
        bool counts = false;  // a planned sample, delivered as itself
        bool substitute = false;
        bool padding = false;
        bool valid = false;
    };
    enum class Collating : std::uint8_t {
        kNo,      // its rows are not done, or it has none to collate
        kWanted,  // a guest must be found
        kAsked,
        kDone
    };
    struct Output {
        std::uint64_t step = 0;
        std::uint64_t epoch = 0;
        std::uint64_t batch = 0;
        std::uint32_t slot = 0;
        std::uint32_t count = 0;
        std::uint32_t filled = 0;    // rows given to samples
        std::uint32_t nobodies = 0;  // rows planned for nobody; they are the last ones in `ready`
        std::uint32_t nobodies_filled = 0;
        std::uint32_t left = 0;  // rows not written yet
        std::uint32_t failures = 0;
        std::vector<Row> rows;
        std::optional<sl_shm_stream_error> error;
        std::uint32_t error_row = 0;
        Collating collating = Collating::kNo;
        std::uint32_t guests_lost = 0;  // that were collating it
        std::uint64_t collated_bytes = 0;
        [[nodiscard]] bool whole() const {
            return left == 0 && (collating == Collating::kNo || collating == Collating::kDone);
        }
    };

    static constexpr std::uint64_t kLittle = 1024;  // bytes: a copy that costs less than a thread's wake-up

    Stream(const Spec& spec, std::shared_ptr<const Dataset> dataset, const RingIdentity& identity,
           std::shared_ptr<CostModel> costs);

    const BatchPlan& plan(std::uint64_t epoch);
    void open_account(std::uint64_t epoch, const BatchPlan& made);
    [[nodiscard]] bool before_start(std::uint64_t epoch, std::uint64_t position);
    Output* output_for(const Task& task);
    // Of a task that has one.
    [[nodiscard]] Output& output_of(const Task& task) {
        return outputs_[task.output_step - outputs_.front().step];
    }
    [[nodiscard]] const Output& output_of(const Task& task) const {
        return outputs_[task.output_step - outputs_.front().step];
    }
    void row_ended(Output& output);
    void finish_step(std::uint64_t step);
    void plan_copies();
    std::uint32_t nobodies_in(std::uint64_t epoch, std::uint64_t batch);
    [[nodiscard]] std::uint64_t nobodies_planned(const BatchPlan& made, std::uint64_t first_batch) const;
    [[nodiscard]] std::uint64_t nobodies_left_out(const BatchPlan& made) const;
    void add_picture(const Task& task, RowJob& job);
    void add_item(const Task& task, RowJob& job);
    void publish_output(Output& output);
    bool over_budget(const Output& output);
    void account(const Output& output);
    void end_epoch(std::uint64_t epoch, std::uint64_t step);
    sl_shm_stream_error sample_error(const Task& task, const SampleError& error) const;

    Spec spec_;
    std::shared_ptr<const Dataset> dataset_;
    RingIdentity identity_;
    MemoryBudget::Share memory_;
    StreamLayout planned_;  // until the ring has it
    BatchRing ring_;
    SampleSlots slots_;
    Predictor predictor_;
    Ledger ledger_;
    NormalizeTable table_;
    CopyPlan copies_;  // of items
    CopyPlan rest_;    // of those that are in their rows
    std::uint64_t rest_bytes_ = 0;

    std::map<std::uint64_t, BatchPlan> plans_;  // of the epochs under way
    std::uint64_t cursor_epoch_ = 0;
    std::uint64_t cursor_batch_ = 0;
    std::uint32_t cursor_row_ = 0;

    std::deque<Step> steps_;  // steps_[0] is front_step_
    std::uint64_t front_step_ = 0;
    std::deque<Output> outputs_;
    std::uint64_t next_output_step_ = 0;
    std::vector<std::uint32_t> waiting_;  // done tasks without an output

    std::uint64_t failures_ = 0;  // in published batches
    std::uint64_t asked_ = 0;     // rows of published batches
    bool stopped_ = false;
    bool ring_full_ = false;
    std::uint64_t ring_full_since_ns_ = 0;
};

}  // namespace sl
