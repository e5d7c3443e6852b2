// Assembler threads: finished samples become rows of batches.
//
// The conductor submits row jobs and takes back their tags and times; the threads in between write batch
// memory. They run the fused pass (collate.h), or copy an item (copy_row.h), and fill in the row's label, id,
// validity and info. They parse no foreign bytes. submit() and reap() belong to the conductor thread.
// Hand-overs are by mutex (ROWS, both ways), so a reaped row is fully written and visible to whoever
// publishes it. Nobody else writes a batch, but for items whose guests write them into their rows: of those
// the conductor itself writes the few bytes that are left, if they are few, as waking a thread would cost
// more (write_row).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "daemon/assemble/collate.h"
#include "daemon/assemble/copy_row.h"
#include "shm/error.h"
#include "shm/fd.h"
#include "shm/layout.h"

namespace sl {

// Where a row's small fields go; `explain` pointers are null unless the spec asked for the draws.
struct RowFields {
    std::int64_t* label = nullptr;  // null: items have none
    std::uint64_t* sample_id = nullptr;
    std::uint8_t* valid = nullptr;
    sl_shm_sample_info* info = nullptr;
    std::int32_t* crop_box = nullptr;  // x, y, width, height
    std::uint8_t* flip = nullptr;
};

struct RowJob {
    std::uint64_t tag = 0;
    // Packed HWC, or an item's slot; null: a row of zeros (placeholder).
    const std::uint8_t* sample = nullptr;
    const NormalizeTable* table = nullptr;
    CollateTarget target;
    CopyTarget copy;  // of an item, in place of table and target
    RowFields fields;
    std::int64_t label = 0;
    sl_shm_sample_info info{};
    std::int32_t crop_box[4] = {};
    std::uint8_t flip = 0;
};

// Writes one row, on the caller's thread.
void write_row(const RowJob& job);

// A row that is written: what the conductor gets back.
struct RowDone {
    std::uint64_t tag = 0;
    std::uint64_t begin_ns = 0;  // CLOCK_MONOTONIC
    std::uint64_t end_ns = 0;
    std::uint16_t thread = 0;
};

class Assembler {
  public:
    static Result<std::unique_ptr<Assembler>> start(unsigned threads);
    ~Assembler();  // finishes what was submitted
    Assembler(const Assembler&) = delete;
    Assembler& operator=(const Assembler&) = delete;

    // Queues a row; the threads are woken by flush(), once for many rows.
    void submit(const RowJob& job) { pending_.push_back(job); }
    void flush();
    [[nodiscard]] std::size_t pending() const { return pending_.size(); }
    // Appends the finished rows.
    void reap(std::vector<RowDone>& rows);
    // Readable while finished rows wait.
    [[nodiscard]] int event_fd() const { return done_event_.get(); }

  private:
    Assembler() = default;
    void run(std::uint16_t thread);

    std::vector<RowJob> pending_;  // conductor's own
    std::mutex mutex_;             // guards all below
    std::condition_variable work_;
    std::vector<RowJob> queue_;  // last in, first out would starve: taken from the front by index
    std::size_t next_ = 0;
    std::vector<RowDone> done_;
    bool stopping_ = false;
    UniqueFd done_event_;
    std::vector<std::thread> threads_;
};

}  // namespace sl
