// The ledger: what was planned, delivered, replaced and lost in each epoch, and the proof that it adds up.
//
// One per stream, owned by the conductor thread. A sample counts as delivered when the batch that holds it is
// published. At an epoch's end every planned sample is either delivered once or named among the failures;
// `missing` and `repeated` count what is not, and anything but zero is a fault of ours. Memory: one bit a
// sample of each open epoch.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "shm/error.h"

namespace sl {

struct Failure {
    std::uint64_t sample_id = 0;
    std::string path;
    SampleError error;
    std::uint64_t epoch = 0;
    std::uint64_t batch = 0;
    std::uint32_t row = 0;
    std::int64_t substitute = -1;  // id of the sample delivered instead, -1 if none
};

struct EpochAccount {
    std::uint64_t planned = 0;      // samples that this rank should deliver
    std::uint64_t delivered = 0;    // of these, delivered as themselves
    std::uint64_t failed = 0;       // of these, named in the failures
    std::uint64_t substituted = 0;  // rows filled by another sample
    std::uint64_t padding = 0;      // rows that repeat a sample to fill a batch
    std::uint64_t dropped = 0;      // samples that the plan leaves out of this epoch
    std::uint64_t missing = 0;      // planned, neither delivered nor failed
    std::uint64_t repeated = 0;     // delivered more than once
    // First batch of the epoch that this stream delivers: 0, or where it was resumed. What stood before it is
    // neither planned nor dropped here; another stream has delivered it.
    std::uint64_t resumed_at = 0;
    bool closed = false;  // the epoch's last batch has been published
};

class Ledger {
  public:
    explicit Ledger(std::uint64_t samples) : samples_(samples) {}

    // `planned` counts the samples from batch `resumed_at` on.
    void plan_epoch(std::uint64_t epoch, std::uint64_t planned, std::uint64_t dropped,
                    std::uint64_t resumed_at = 0);
    // `position` of the sample in the epoch; one that is not less than `samples` counts as repeated.
    void delivered(std::uint64_t epoch, std::uint64_t position);
    // A sample whose place is before `resumed_at`.
    void delivered_again(std::uint64_t epoch) { ++accounts_[epoch].account.repeated; }
    void substituted(std::uint64_t epoch) { ++accounts_[epoch].account.substituted; }
    void padding(std::uint64_t epoch) { ++accounts_[epoch].account.padding; }
    // `planned`: the failing sample held a planned place (not a substitute's or a repeat's). Returns an index
    // for set_substitute, or -1 once there are too many to keep.
    std::int64_t failed(Failure failure, bool planned);
    void set_substitute(std::int64_t index, std::uint64_t id);
    // Closes the account and gives the epoch's memory back.
    const EpochAccount& close_epoch(std::uint64_t epoch);

    [[nodiscard]] std::uint64_t failure_count() const { return failure_count_; }
    [[nodiscard]] const std::vector<Failure>& failures() const { return failures_; }
    [[nodiscard]] std::vector<std::pair<std::uint64_t, EpochAccount>> accounts() const;

  private:
    struct Epoch {
        EpochAccount account;
        std::vector<bool> seen;
    };

    std::uint64_t samples_;
    std::map<std::uint64_t, Epoch> accounts_;
    std::vector<Failure> failures_;
    std::uint64_t failure_count_ = 0;
    std::size_t text_bytes_ = 0;
};

}  // namespace sl
