// How a stream comes to be: its crew, its place in the budget, its memory, and then its place in the turn.
//
// The memory is made in the background, for the kernel clears pages at some gigabytes a second, and who asks
// for many must not hold up anybody else. Meanwhile the stream keeps its crew, and nobody else knows of it.
#include "daemon/stream/opening.h"

#include "daemon/stream/conductor.h"

namespace sl {

namespace {
// So long an opening waits for memory of its user's that somebody still keeps: a guest that has not heard yet
// of a stream's end, a client about to drop its last batch.
constexpr std::chrono::seconds kPatience{1};
constexpr std::chrono::milliseconds kBetweenLooks{20};
}  // namespace

void Conductor::open(std::shared_ptr<Opening> opening) {
    if (!opening->until) opening->until = EventLoop::Clock::now() + kPatience;
    kept_memory_.settle([this, opening = std::move(opening)] {
        if (opening->asker.expired()) return;
        if (auto begun = begin(opening); !begun) opening->done(std::unexpected(std::move(begun).error()));
    });
}

Result<void> Conductor::begin(const std::shared_ptr<Opening>& opening) {
    const Spec& spec = opening->spec;
    const Owner& owner = opening->owner;
    if (spec.kind == DatasetKind::kItems && spec.items.crew == 0)
        return sl::fail(Status::kSpec, "dataset.crew is 0: a stream of items names the crew that makes them");
    auto crew = spec.kind == DatasetKind::kItems ? crews_.guests(spec.items.crew, owner.uid)
                                                 : crews_.native(owner.uid);
    if (!crew) return std::unexpected(std::move(crew).error());
    if (const Error* why = (*crew)->pool->trouble()) return std::unexpected(*why);

    opening->wish.workers = (*crew)->workers();
    auto costs = costs_of(spec, *opening->dataset, **crew);
    auto made =
        Stream::create(spec, opening->dataset, {.boot_id = options_.boot_id, .stream_id = next_stream_id_},
                       opening->wish, costs);
    auto reservation = made ? reserve((*made)->needs(), owner, *crew)
                            : Result<MemoryBudget::Share>(std::unexpected(std::move(made).error()));
    if (!reservation) {
        let_go_of_costs(costs);
        Error error = std::move(reservation).error();
        const KeptMemory::Sum kept = kept_memory_.sum(owner.uid);
        const bool is_of_limit = error.status == Status::kBudget && made &&
                                 !budget_.allows((*made)->needs(), {owner.uid, owner.most_bytes});
        if (!is_of_limit || kept.count == 0) return std::unexpected(std::move(error));
        if (EventLoop::Clock::now() < *opening->until) {
            loop_.after(kBetweenLooks, [this, opening] { open(opening); });
            return {};
        }
        error.message += "; somebody still holds " + describe_bytes(kept.bytes) + " of closed streams";
        return std::unexpected(std::move(error));
    }
    ++next_stream_id_;
    (*made)->own(std::move(*reservation));
    opening->stream = std::move(*made);
    opening->crew = *crew;
    ++(*crew)->streams;
    background_->run(
        owner.uid, [opening] { opening->memory = opening->stream->make_memory(); },
        [this, opening] { finish(*opening); });
    return {};
}

// Where the daemon's memory is short, rather than what the user may have, crews that rest make room.
Result<MemoryBudget::Share> Conductor::reserve(std::uint64_t bytes, const Owner& owner, const Crew* crew) {
    const MemoryBudget::Account account{owner.uid, owner.most_bytes};
    auto reservation = budget_.reserve(bytes, "this stream", account);
    if (!reservation && budget_.allows(bytes, account) && crews_.end_resting(crew))
        reservation = budget_.reserve(bytes, "this stream", account);
    return reservation;
}

void Conductor::finish(Opening& opening) {
    auto stream = add(opening);
    if (!stream) {
        let_go_of_costs(opening.stream->predictor().shared_model());
        if (--opening.crew->streams == 0) crews_.rest(*opening.crew);
        if (opening.memory) opening.stream->give_up(kept_memory_);
    }
    if (!opening.asker.expired()) opening.done(std::move(stream));
}

Result<Stream*> Conductor::add(Opening& opening) {
    if (!opening.memory) return std::unexpected(opening.memory.error());
    if (opening.asker.expired()) return sl::fail(Status::kDisconnected, "the client has gone");
    if (const Error* why = opening.crew->pool->trouble()) return std::unexpected(*why);
    Stream* stream = opening.stream.get();
    // Only ends the wait. The client shares the descriptor, so nobody here reads it.
    if (auto added = loop_.add(
            stream->ring().wake_fd(), [](std::uint32_t) {}, EventLoop::Trigger::kEdge);
        !added)
        return std::unexpected(added.error());
    trace_.opened(stream->id(), opening.owner.uid);
    stream->ring().watch(trace_);
    streams_[stream->id()] = std::move(opening.stream);
    enlist(*stream, *opening.crew, opening.owner);
    return stream;
}

}  // namespace sl
