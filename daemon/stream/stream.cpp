#include "daemon/stream/stream.h"

#include <algorithm>
#include <utility>

namespace sl {

namespace {

Result<BatchPlan> plan_epoch(const Spec& spec, const Dataset& dataset, std::uint64_t epoch) {
    return BatchPlan::make(dataset.sequence(spec.seed, epoch, spec.shuffle), spec.batch);
}

}  // namespace

Stream::Stream(const Spec& spec, std::shared_ptr<const Dataset> dataset, const RingIdentity& identity,
               std::shared_ptr<CostModel> costs)
    : spec_(spec),
      dataset_(std::move(dataset)),
      identity_(identity),
      predictor_(std::move(costs)),
      ledger_(identity.samples),
      cursor_epoch_(identity.start.epoch),
      cursor_batch_(identity.start.batch),
      front_step_(identity.start.epoch * identity.batches_per_epoch + identity.start.batch),
      next_output_step_(front_step_) {
    make_normalize_table(spec_.pipeline, table_);
}

Result<std::unique_ptr<Stream>> Stream::create(const Spec& spec, std::shared_ptr<const Dataset> dataset,
                                               const RingIdentity& base, const Wish& wish,
                                               std::shared_ptr<CostModel> costs) {
    if (dataset->items() == nullptr && (spec.pipeline.height == 0 || spec.pipeline.width == 0)) {
        return fail(Status::kSpec,
                    "the pipeline gives pictures no fixed size, so they cannot be batched: add "
                    "{\"op\": \"random_resized_crop\", \"size\": [224, 224]}, \"resize\" or \"center_crop\"");
    }
    RingIdentity identity = base;
    identity.samples = dataset->samples();
    identity.epochs = spec.epochs;
    auto first = plan_epoch(spec, *dataset, 0);
    if (!first) return std::unexpected(std::move(first).error());
    identity.batches_per_epoch = first->batches();
    identity.any_members = spec.order_policy == OrderPolicy::kReady;
    identity.start = start_of(spec, dataset->fingerprint(), identity.samples);
    if (wish.resume) {
        auto fits =
            check_position(*wish.resume, identity.start, spec, identity.batches_per_epoch, wish.on_change);
        if (!fits) return std::unexpected(std::move(fits).error());
        identity.start.epoch = wish.resume->epoch;
        identity.start.batch = wish.resume->batch;
    }

    auto layout = plan_layout(spec, wish.slots, wish.workers);
    if (!layout) return std::unexpected(layout.error());
    std::unique_ptr<Stream> stream(new Stream(spec, std::move(dataset), identity, std::move(costs)));
    stream->planned_ = std::move(*layout);
    return stream;
}

Result<void> Stream::make_memory() {
    const StreamLayout layout = std::exchange(planned_, {});
    auto ring = BatchRing::create(layout, identity_);
    if (!ring) return std::unexpected(std::move(ring).error());
    auto samples = Segment::create("speedyloader-samples", layout.sample_segment_bytes());
    if (!samples) return std::unexpected(std::move(samples).error().because("sample ring"));
    if (auto sealed = samples->seal_size(); !sealed) return std::unexpected(sealed.error());
    ring_ = std::move(*ring);
    slots_ = SampleSlots(std::move(*samples), layout.sample_slot_bytes, layout.sample_slots);
    plan_copies();
    // Resumed after the last batch: nothing will be published that could be followed by the end.
    if (planned_all()) ring_.publish_state(SL_DESCRIPTOR_END, spec_.epochs, front_step_);
    return {};
}

void Stream::give_up(KeptMemory& kept) {
    const auto uid = memory_.uid();
    if (!uid) return;
    KeptMemory::Memory memory;
    ring_.give_up(memory.lent);
    (is_items() ? memory.lent : memory.own).push_back(slots_.give_up());  // else only workers have it
    memory.reservation = std::move(memory_);
    kept.give_up(*uid, std::move(memory));
}

const BatchPlan& Stream::plan(std::uint64_t epoch) {
    auto found = plans_.find(epoch);
    if (found == plans_.end()) {
        // Cannot fail: the rules were accepted for epoch 0 and do not depend on the epoch.
        found = plans_.emplace(epoch, *plan_epoch(spec_, *dataset_, epoch)).first;
        open_account(epoch, found->second);
    }
    return found->second;
}

void Stream::open_account(std::uint64_t epoch, const BatchPlan& made) {
    std::uint64_t first = epoch == identity_.start.epoch ? identity_.start.batch : 0;
    std::uint64_t last = made.batches() - 1;  // only the last batch can hold repeats
    std::uint64_t planned = (last - first) * made.members(0);
    for (std::uint32_t i = 0; i < made.members(last); ++i)
        planned += made.member(last, i).repeat ? 0 : 1;
    planned -= nobodies_planned(made, first);
    ledger_.plan_epoch(epoch, planned, made.left_out() - nobodies_left_out(made), first);
}

// Whether a position in the epoch lies before that at which the stream was resumed.
bool Stream::before_start(std::uint64_t epoch, std::uint64_t position) {
    return epoch == identity_.start.epoch && position < plan(epoch).first_position(identity_.start.batch);
}

bool Stream::next_place(Task& task) {
    if (planned_all()) return false;
    const BatchPlan& current = plan(cursor_epoch_);
    std::uint32_t members = current.members(cursor_batch_);
    if (cursor_row_ == 0) steps_.push_back({cursor_epoch_, members});
    task.step = front_step_ + steps_.size() - 1;
    task.epoch = cursor_epoch_;
    task.batch = cursor_batch_;
    task.row = cursor_row_;
    task.planned = current.member(cursor_batch_, cursor_row_);
    task.sample_id = task.planned.id;
    if (++cursor_row_ == members) {
        cursor_row_ = 0;
        if (++cursor_batch_ == current.batches()) {
            cursor_batch_ = 0;
            ++cursor_epoch_;
        }
    }
    return true;
}

bool Stream::next_substitute(Task& task) {
    std::optional<Member> substitute;
    do {
        substitute = plan(task.epoch).substitute(task.batch, task.row, task.substitutes_tried);
        if (!substitute) return false;
        ++task.substitutes_tried;
    } while (is_nobody(substitute->id));
    task.sample_id = substitute->id;
    ledger_.set_substitute(task.failure_index, task.sample_id);
    return true;
}

bool Stream::open_outputs() {
    bool any = false;
    while (!stopped_) {
        std::uint64_t epoch = next_output_step_ / identity_.batches_per_epoch;
        if (epoch >= spec_.epochs) return any;
        std::uint64_t batch = next_output_step_ % identity_.batches_per_epoch;
        auto slot = ring_.acquire();
        if (!slot) {
            // Every slot is with the consumer and finished work waits: the consumer is the bottleneck.
            if (outputs_.empty() && !waiting_.empty() && !std::exchange(ring_full_, true)) {
                ring_full_since_ns_ = Trace::now();
            }
            return any;
        }
        if (std::exchange(ring_full_, false)) ring_.was_full(ring_full_since_ns_);
        Output output;
        output.step = next_output_step_++;
        output.epoch = epoch;
        output.batch = batch;
        output.slot = *slot;
        output.count = plan(epoch).members(batch);
        output.left = output.count;
        output.nobodies = nobodies_in(epoch, batch);
        output.rows.resize(output.count);
        outputs_.push_back(std::move(output));
        any = true;
    }
    return any;
}

Stream::Output* Stream::output_for(const Task& task) {
    if (spec_.order_policy == OrderPolicy::kStrict || is_nobody(task.sample_id)) {
        if (outputs_.empty() || task.step < outputs_.front().step) return nullptr;
        std::uint64_t index = task.step - outputs_.front().step;
        return index < outputs_.size() ? &outputs_[index] : nullptr;
    }
    auto found = std::ranges::find_if(outputs_, [&](const Output& output) {
        return output.epoch == task.epoch && output.filled + output.nobodies < output.count;
    });
    return found == outputs_.end() ? nullptr : &*found;
}

bool Stream::place(Task& task) {
    Output* output = output_for(task);
    if (output == nullptr) {
        waiting_.push_back(task.index);
        return false;
    }
    task.output_step = output->step;
    const bool nobody = is_nobody(task.sample_id);
    const std::uint32_t next =
        nobody ? output->count - output->nobodies + output->nobodies_filled : output->filled;
    task.output_row = spec_.order_policy == OrderPolicy::kStrict ? task.row : next;
    ++(nobody ? output->nobodies_filled : output->filled);
    output->failures += task.failures;
    bool substitute = task.sample_id != task.planned.id;
    output->rows[task.output_row] = {
        .id = task.sample_id,
        .counts = !task.placeholder && !substitute && !task.planned.repeat,
        .substitute = substitute && !task.placeholder,
        .padding = task.planned.repeat || nobody,
        .valid = task.planned.valid && !task.placeholder,
    };
    return true;
}

bool Stream::fully_placed(const Task& task) const {
    const Output& output = output_of(task);
    return output.filled + output.nobodies_filled == output.count;
}

std::uint64_t Stream::due_step() const {
    if (spec_.order_policy == OrderPolicy::kStrict) return front_step_;
    return std::max(front_step_, outputs_.empty() ? next_output_step_ : outputs_.front().step);
}

std::vector<std::uint32_t> Stream::take_waiting() {
    return std::exchange(waiting_, {});
}

void Stream::add_picture(const Task& task, RowJob& job) {
    const Output& output = output_of(task);
    job.table = &table_;
    job.target = {ring_.tensor(output.slot, 0) + task.output_row * ring_.layout().image_row_bytes,
                  spec_.pipeline.height,
                  spec_.pipeline.width,
                  spec_.pipeline.channels,
                  spec_.dtype,
                  spec_.layout};
    job.fields.label = reinterpret_cast<std::int64_t*>(ring_.tensor(output.slot, 1)) + task.output_row;
    job.label = dataset_->label(task.sample_id);
}

RowJob Stream::row_job(const Task& task, std::uint64_t tag) {
    const Output& output = output_of(task);
    const StreamLayout& layout = ring_.layout();
    std::uint32_t row = task.output_row;
    auto field = [&]<class T>(std::size_t index, T*) {
        return reinterpret_cast<T*>(ring_.tensor(output.slot, index)) + row;
    };
    RowJob job;
    job.tag = tag;
    job.sample = task.placeholder ? nullptr : slots_.data(task.slot);
    if (is_items()) {
        add_item(task, job);
    } else {
        add_picture(task, job);
    }
    job.fields.sample_id = field(layout.sample_id_tensor, static_cast<std::uint64_t*>(nullptr));
    job.fields.valid = field(layout.sample_id_tensor + 1, static_cast<std::uint8_t*>(nullptr));
    job.fields.info = ring_.info(output.slot, row);
    if (spec_.explain) {
        job.fields.crop_box = reinterpret_cast<std::int32_t*>(ring_.tensor(output.slot, 4)) + 4 * row;
        job.fields.flip = field(5, static_cast<std::uint8_t*>(nullptr));
        const std::uint32_t box[4] = {task.box.x, task.box.y, task.box.width, task.box.height};
        std::ranges::copy(box, job.crop_box);
        job.flip = task.flip ? 1 : 0;
    }
    job.info = {.sample_id = task.sample_id,
                .planned_id = task.planned.id,
                .lane = static_cast<std::uint32_t>(task.lane),
                .valid = output.rows[row].valid ? 1U : 0U,
                .predicted_us = static_cast<std::uint32_t>(task.predicted_ns / 1000),
                .actual_us = static_cast<std::uint32_t>(task.actual_ns / 1000)};
    return job;
}

void Stream::finish_step(std::uint64_t step) {
    --steps_[step - front_step_].unfinished;
    while (!steps_.empty() && steps_.front().unfinished == 0) {
        steps_.pop_front();
        ++front_step_;
    }
}

void Stream::row_ended(Output& output) {
    if (--output.left > 0 || spec_.items.collate_bytes == 0 || output.error) return;
    if (std::ranges::any_of(output.rows, &Row::valid)) output.collating = Collating::kWanted;
}

void Stream::row_done(const Task& task) {
    row_ended(output_of(task));
    finish_step(task.step);
}

void Stream::row_failed(const Task& task, const SampleError& error) {
    Output& output = output_of(task);
    if (!output.error || task.output_row < output.error_row) {
        output.error = sample_error(task, error);
        output.error_row = task.output_row;
    }
    row_ended(output);
    finish_step(task.step);
}

}  // namespace sl
