// The end of a stream's way: failures, budgets, accounts, and publishing whole batches in order.
#include <cstring>
#include <utility>

#include "daemon/stream/stream.h"
#include "shm/fault.h"
#include "shm/socket.h"

namespace sl {

namespace {

// The failure rate says something only once enough samples have been asked for.
constexpr std::uint64_t kRateNeedsSamples = 1000;

// Of a traceback the end says what it was; cut between characters of UTF-8.
std::string end_of(const std::string& text) {
    constexpr std::string_view kCut = "... ";
    constexpr std::size_t kMost = SL_SHM_MESSAGE_MAX - 1;
    if (text.size() <= kMost) return text;
    std::size_t from = text.size() - (kMost - kCut.size());
    while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xC0U) == 0x80U)
        ++from;
    return std::string(kCut) + text.substr(from);
}

}  // namespace

sl_shm_stream_error Stream::sample_error(const Task& task, const SampleError& error) const {
    sl_shm_stream_error out{};
    out.status = static_cast<std::int32_t>(Status::kSample);
    out.sample_kind = static_cast<std::uint32_t>(error.kind);
    out.sample_id = task.sample_id;
    out.offset = error.offset;
    out.os_errno = error.os_errno;
    out.epoch = task.epoch;
    out.batch = task.batch;
    copy_text(out.path, task.path);
    copy_text(out.message, is_items() ? end_of(error.message) : error.message);
    return out;
}

void Stream::record_failure(Task& task, const SampleError& error) {
    ++task.failures;
    bool planned = task.sample_id == task.planned.id && !task.planned.repeat;
    task.failure_index =
        ledger_.failed({task.sample_id, task.path, error, task.epoch, task.batch, task.row, -1}, planned);
    count(ring_.stats().failed);
}

bool Stream::over_budget(const Output& output) {
    failures_ += output.failures;
    asked_ += output.count;
    if (output.failures == 0) return false;
    bool too_many = failures_ > spec_.max_failures;
    bool too_often = asked_ >= kRateNeedsSamples &&
                     static_cast<double>(failures_) > spec_.max_rate * static_cast<double>(asked_);
    return too_many || too_often;
}

void Stream::account(const Output& output) {
    std::uint64_t valid = 0;
    std::uint64_t substituted = 0;
    const Sequence& sequence = plan(output.epoch).sequence();
    for (const Row& row : output.rows) {
        if (row.counts) {
            // From the id that is delivered, not as planned: this is what the audit counts.
            const auto position = sequence.position_of(row.id).value_or(identity_.samples);
            if (before_start(output.epoch, position)) {
                ledger_.delivered_again(output.epoch);
            } else {
                ledger_.delivered(output.epoch, position);
            }
        }
        if (row.substitute) {
            ledger_.substituted(output.epoch);
            ++substituted;
        }
        if (row.padding) ledger_.padding(output.epoch);
        valid += row.valid ? 1 : 0;
    }
    count(ring_.stats().batches);
    count(ring_.stats().samples, valid);
    count(ring_.stats().substituted, substituted);
}

void Stream::end_epoch(std::uint64_t epoch, std::uint64_t step) {
    const EpochAccount& closed = ledger_.close_epoch(epoch);
    plans_.erase(epoch);
    if (closed.missing != 0 || closed.repeated != 0) {
        stop({Status::kInternal,
              "audit of epoch " + std::to_string(epoch) + " failed: " + std::to_string(closed.missing) +
                  " samples missing, " + std::to_string(closed.repeated) + " repeated",
              0});
        return;
    }
    SL_FAULT(daemon_epoch_closed);
    ring_.publish_state(SL_DESCRIPTOR_END_OF_EPOCH, epoch, step);
    if (epoch + 1 == spec_.epochs) ring_.publish_state(SL_DESCRIPTOR_END, epoch, step);
}

void Stream::publish_output(Output& output) {
    if (over_budget(output)) {
        stop({Status::kTooManyFailures,
              std::to_string(failures_) + " samples could not be delivered by the time " +
                  std::to_string(asked_) + " had been asked for; errors.max_failures is " +
                  std::to_string(spec_.max_failures) + " and errors.max_rate " +
                  std::to_string(spec_.max_rate) + " (the report names each)",
              0});
        return;
    }
    if (output.error) {
        stopped_ = true;
        ring_.publish_error(*output.error, output.step);
        return;
    }
    SL_FAULT(daemon_batch_whole);
    account(output);
    if (spec_.items.collate_bytes != 0) {
        std::memcpy(ring_.tensor(output.slot, ring_.layout().collated_tensor() + 1), &output.collated_bytes,
                    sizeof output.collated_bytes);
    }
    ring_.publish_batch(output.slot, output.epoch, output.batch, output.step, output.count);
    if (output.batch + 1 == identity_.batches_per_epoch) end_epoch(output.epoch, output.step + 1);
}

std::uint64_t Stream::waited_for_consumer_ns() const {
    const std::uint64_t before = ring_.stats().ring_full_ns;
    return ring_full_ ? before + Trace::now() - ring_full_since_ns_ : before;
}

void Stream::publish() {
    while (!stopped_ && !outputs_.empty() && outputs_.front().whole()) {
        publish_output(outputs_.front());
        outputs_.pop_front();
    }
}

void Stream::stop(const Error& error) {
    if (std::exchange(stopped_, true)) return;
    sl_shm_stream_error out{};
    out.status = static_cast<std::int32_t>(error.status);
    out.os_errno = error.os_errno;
    out.offset = kNoOffset;
    std::uint64_t step = outputs_.empty() ? next_output_step_ : outputs_.front().step;
    out.epoch = step / identity_.batches_per_epoch;
    out.batch = step % identity_.batches_per_epoch;
    copy_text(out.message, error.message);
    ring_.publish_error(out, step);
}

}  // namespace sl
