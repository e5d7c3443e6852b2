// For tests of streams of items: the conductor's and a guest's part, without the processes around them.
//
// Used by item_stream_test.cpp and item_rows_test.cpp, one thread; what goes wrong is a failed assertion.
#pragma once

#include <algorithm>
#include <cstring>

#include "daemon/stream/stream.h"
#include "tests/stream/item_orders.h"

namespace sl {

inline constexpr std::uint64_t kNobody = SL_SHM_NO_ITEM;

inline Spec spec_of(std::uint64_t count, std::uint32_t batch, OrderPolicy policy, bool opaque = false) {
    Spec spec;
    spec.kind = DatasetKind::kItems;
    spec.parts.clear();
    spec.shuffle = false;
    spec.items.count = count;
    spec.items.name = "Set";
    spec.items.epoch = 9;
    spec.items.opaque = opaque;
    if (opaque) {
        spec.items.rows = {{"item", SL_SHM_UINT8, {32}}};
    } else {
        spec.items.rows = {{"x", SL_SHM_UINT64, {2}}, {"y", SL_SHM_UINT8, {}}};
    }
    spec.batch.size = batch;
    spec.batch.last = LastBatch::kKeep;
    spec.order_policy = policy;
    spec.error_policy = ErrorPolicy::kPlaceholder;
    return spec;
}

// The conductor's and a guest's part, in the order of the plan or backwards.
class Run {
  public:
    Run(const Spec& spec, const std::vector<std::uint64_t>& items) {
        auto order = order_of(items);
        auto costs = std::make_shared<CostModel>(CostModel::Items{order->items_end(), order->mean_hint()});
        auto made = Stream::create(spec, Dataset::of_items(spec.items.name, order),
                                   {.boot_id = 1, .stream_id = 1}, {}, costs);
        if (!made) fail_msg("%s", made.error().message.c_str());
        stream_ = std::move(*made);
        assert_true(stream_->make_memory().has_value());
        auto assembler = Assembler::start(1);
        assert_true(assembler.has_value());
        assembler_ = std::move(*assembler);
    }

    Stream& stream() { return *stream_; }

    Task& plan_next() {
        Task& task = tasks_.allocate();
        task.state = TaskState::kOpening;
        task.stream = stream_.get();
        assert_true(stream_->next_place(task));
        return task;
    }

    // Where a guest would write a field: what the library makes of layout and place.
    std::uint8_t* field(const Task& task, const sl_shm_place& place, std::uint32_t i) {
        const sl_shm_item_layout& layout = stream_->ring().layout().items;
        auto* slot = const_cast<std::uint8_t*>(stream_->slots().data(task.slot));
        if (place.kind == SL_SHM_PLACE_NONE || (layout.in_place >> i & 1U) == 0)
            return slot + layout.field[i].offset;
        auto* batches =
            reinterpret_cast<std::uint8_t*>(stream_->ring().batches().data()) + layout.slots_offset;
        return batches + place.slot * layout.batch_bytes + layout.row_offset[i] +
               place.row * layout.field[i].bytes;
    }

    // Writes an item as its guest would.
    void write(Task& task) {
        const Spec& spec = stream_->spec();
        auto slot = stream_->slots().acquire(Lane::kLight, true);
        assert_true(slot.has_value());
        task.slot = *slot;
        auto* to = const_cast<std::uint8_t*>(stream_->slots().data(*slot));
        const std::uint64_t item = stream_->key(task).sample_id;
        std::memset(to, 0xEE, item_layout(spec.items).slot_bytes);
        auto* header = reinterpret_cast<sl_shm_item_header*>(to);
        *header = {};
        const sl_shm_place place = stream_->place_ahead(task);
        task.in_place = place.kind == SL_SHM_PLACE_ROW;
        if (spec.items.opaque) {
            const std::uint64_t capacity = spec.items.rows[0].shape[0];
            header->payload_bytes = item;  // beyond the capacity for some
            std::memset(field(task, place, 0), static_cast<int>(item), std::min(item, capacity));
        } else {
            const std::uint64_t x[2] = {item, ~item};
            std::memcpy(field(task, place, 0), x, sizeof x);
            *field(task, place, 1) = static_cast<std::uint8_t>(item);
        }
    }

    void place(Task& task) {
        stream_->open_outputs();
        assert_true(stream_->place(task));
        if (stream_->is_all_but_written(task)) {
            write_row(stream_->row_job(task, TaskTable::tag(task)));
            ++in_place_;
        } else {
            assembler_->submit(stream_->row_job(task, TaskTable::tag(task)));
            assembler_->flush();
            std::vector<RowDone> rows;
            while (rows.empty())
                assembler_->reap(rows);
        }
        stream_->row_done(task);
        stream_->publish();
    }
    [[nodiscard]] int in_place() const { return in_place_; }

    // All tasks of an epoch that fits the ring, last planned first.
    void deliver_backwards(std::uint64_t count) {
        std::vector<Task*> tasks;
        for (std::uint64_t i = 0; i < count; ++i)
            tasks.push_back(&plan_next());
        std::ranges::reverse(tasks);
        for (Task* task : tasks) {
            task->placeholder = stream_->is_nobody(task->sample_id);
            if (!task->placeholder) write(*task);
            place(*task);
        }
    }

    template <class T>
    const T* tensor(std::uint32_t batch, std::size_t index) {
        return reinterpret_cast<const T*>(stream_->ring().tensor(batch, index));
    }
    EpochAccount account() { return stream_->ledger().accounts().front().second; }

  private:
    std::unique_ptr<Stream> stream_;
    std::unique_ptr<Assembler> assembler_;
    TaskTable tasks_;
    int in_place_ = 0;
};

// The same with rows of 128 bytes, which guests write where they belong.
inline Spec placed_spec_of(std::uint64_t count, std::uint32_t batch,
                           OrderPolicy policy = OrderPolicy::kStrict) {
    Spec spec = spec_of(count, batch, policy);
    spec.items.rows[0].shape = {16};
    return spec;
}

}  // namespace sl
