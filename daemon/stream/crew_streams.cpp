// The conductor and its crews: what their pools tell it, which stream is whose, and who comes and goes.
#include <spdlog/spdlog.h>

#include <chrono>
#include <span>

#include "daemon/stream/conductor.h"

namespace sl {

WorkerPoolEvents Conductor::pool_events(Crew& crew) {
    return {.completed = [this, &crew](const sl_shm_completion& completion,
                                       std::size_t worker) { on_completion(crew, completion, worker); },
            .looked = [this](const sl_shm_completion& completion) { on_header(completion); },
            .lost = [this, &crew](const LostJob& lost) { on_lost(crew, lost); },
            .capacity = [] {},  // the turn after this event dispatches
            .failed = [this, &crew](const Error& error) { stop_streams(crew, error); }};
}

// From now on the stream's jobs are the crew's, which has counted it already, and hears of it.
void Conductor::enlist(Stream& stream, Crew& crew, const Owner& owner) {
    stream.flow.crew = &crew;
    crew.owners.insert(owner.session);
    const Spec& spec = stream.spec();
    if (stream.is_items()) {
        const StreamLayout& layout = stream.ring().layout();
        const std::chrono::duration<double> limit(spec.items.timeout_s);
        crew.pool->add_stream(stream.id(),
                              {.about = std::as_bytes(std::span(&layout.items, 1)),
                               .rows = layout.guests_write() ? &stream.ring().batches() : nullptr,
                               .samples = &stream.slots().segment()},
                              std::chrono::ceil<std::chrono::milliseconds>(limit));
    } else {
        crew.pool->add_stream(stream.id(), {.about = std::as_bytes(std::span(&spec.pipeline, 1)),
                                            .samples = &stream.slots().segment(),
                                            .max_pixels = spec.pipeline.max_pixels});
    }
    crew.scheduler.add_stream(stream.id(), {.batch_size = spec.batch.size});
}

void Conductor::owner_gone(std::uint64_t session) {
    crews_.owner_gone(session);
}

Result<void> Conductor::attach_guest(Guest& guest) {
    return crews_.attach(guest);
}

// The crew's workers cannot be had.
void Conductor::stop_streams(const Crew& crew, const Error& error) {
    spdlog::error("{} (user {})", error.message, crew.uid);
    for (auto& [id, stream] : streams_) {
        if (!stream->flow.closing && stream->flow.crew == &crew) stream->stop(error);
    }
}

}  // namespace sl
