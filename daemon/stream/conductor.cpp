// The conductor's life and its turn; see intake.cpp, work.cpp and output.cpp for the three legs of the way.
#include "daemon/stream/conductor.h"

#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>

namespace sl {

namespace {

// A quarter of the process's descriptors for files that are open, another for opens under way; the rest is
// for clients and segments.
std::uint32_t max_files() {
    rlimit limit{};
    constexpr std::uint64_t kMost = 4096;
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 64;
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(limit.rlim_cur / 4, 8, kMost));
}

std::uint64_t now_ns() {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

unsigned assembler_threads(std::uint32_t workers) {
    return std::clamp(workers / 4, 1U, 8U);
}

}  // namespace

Conductor::Conductor(EventLoop& loop, const ConductorOptions& options, std::unique_ptr<Background> background)
    : loop_(loop),
      options_(options),
      budget_(options.memory_bytes),
      background_(std::move(background)),
      kept_memory_(loop, *background_),
      trace_(options.workers, assembler_threads(options.workers)),
      failure_log_(loop),
      crew_costs_(loop),
      crews_(loop, budget_,
             {.worker_program = options.worker_program,
              .workers = options.workers,
              .cores = options.cores,
              .input_bytes = options.input_bytes,
              .quarantine_file = options.quarantine_file,
              .boot_id = options.boot_id},
             [this](Crew& crew) { return pool_events(crew); }),
      max_files_(max_files()) {}

Result<std::unique_ptr<Conductor>> Conductor::create(EventLoop& loop, const ConductorOptions& options) {
    auto background = Background::create(loop);
    if (!background) return std::unexpected(std::move(background).error());
    std::unique_ptr<Conductor> conductor(new Conductor(loop, options, std::move(*background)));
    Conductor* self = conductor.get();

    if (auto started = self->crews_.start_home(); !started) return std::unexpected(started.error());

    ReaderOptions reader_options = options.reader;
    reader_options.retry_for = std::min(reader_options.retry_for, options.read_timeout / 2);
    // Of the one domain that stays as long as the reader: registered pages outlive their map, and another one
    // at its address would be taken for it.
    reader_options.registered = self->crews_.home().domain->input.segment().bytes();
    auto reader = make_reader(reader_options, &self->reader_note_);
    if (!reader) return std::unexpected(std::move(reader).error());
    self->reader_ = std::move(*reader);

    auto costs = CostStore::create(loop, options.cost_folder);
    if (!costs) return std::unexpected(std::move(costs).error());
    self->costs_ = std::move(*costs);

    auto assembler = Assembler::start(assembler_threads(options.workers));
    if (!assembler) return std::unexpected(assembler.error());
    self->assembler_ = std::move(*assembler);

    // These descriptors only end the wait: each turn looks at everything.
    auto added = loop.add(self->reader_->event_fd(), [](std::uint32_t) {});
    if (added) added = loop.add(self->assembler_->event_fd(), [](std::uint32_t) {});
    if (!added) return std::unexpected(added.error());
    loop.on_idle([self] { return self->before_sleep(); }, [self] { self->after_sleep(); });
    return conductor;
}

bool Conductor::shut_down() {
    loop_.on_idle([] { return false; }, [] {});
    background_->shut_down();  // no stream is made any more
    crews_.clear();            // no worker writes any more
    assembler_.reset();        // no row is written any more
    constexpr std::chrono::milliseconds kGrace{500};
    bool returned = reader_ == nullptr || reader_->finish(kGrace);
    if (!returned) {
        spdlog::warn("leaving with reads that have not returned; the kernel keeps them until it lets go");
        // They write into the arenas and touch the reader for as long as this process has threads.
        static_cast<void>(reader_.release());
        crews_.abandon_domains();
    }
    reader_.reset();
    for (auto& [id, stream] : streams_) {
        for (Task* task : tasks_.of(stream.get())) {
            if (task->fd >= 0 && returned) ::close(task->fd);
        }
        stream->ring().close();
        let_go_of_costs(stream->predictor().shared_model());
    }
    streams_.clear();
    return returned;
}

Conductor::~Conductor() {
    shut_down();
}

void Conductor::close(Stream* stream, std::function<void()> on_gone) {
    if (std::exchange(stream->flow.closing, true)) return;
    if (on_gone) on_gone_[stream->id()] = std::move(on_gone);
    loop_.remove(stream->ring().wake_fd());
    stream->ring().close();
    for (Task* task : tasks_.of(stream)) {
        switch (task->state) {
            case TaskState::kRunnable:
                stream->flow.crew->scheduler.remove(stream->id(), task->lane, task->runnable());
                drop(*task);
                break;
            case TaskState::kOpening:
            case TaskState::kReading:
                abandon(*task);  // the reader may never answer
                drop(*task);
                break;
            case TaskState::kSized:
            case TaskState::kDone:
                drop(*task);
                break;
            default:
                break;  // somebody is at it: its answer drops it
        }
    }
    stream->flow.crew->scheduler.remove_stream(stream->id());
    rows_urgent_ = true;  // rows of its that nobody completes any more
    needs_sweep_ = true;
}

bool Conductor::collect() {
    bool any = false;
    for (const auto& [key, crew] : crews_.all())
        any |= crew->pool->reap();
    reads_.clear();
    any |= reader_->reap(reads_) > 0;
    for (const ReadCompletion& completion : reads_)
        on_read_completion(completion);
    rows_.clear();
    assembler_->reap(rows_);
    any |= !rows_.empty();
    for (const RowDone& row : rows_)
        on_row(row);
    for (auto& [id, stream] : streams_) {
        if (!stream->flow.closing) any |= stream->ring().collect_returns();
    }
    trace_.reads_under_way(reader_->in_flight() > reader_->hung());
    return any;
}

bool Conductor::turn() {
    // Bounded, so that sockets, signals and timers are served however quickly work comes back.
    constexpr int kRounds = 8;
    for (int round = 0; round < kRounds; ++round) {
        for (const auto& [key, crew] : crews_.all())
            crew->scheduler.advance(now_ns());
        for (auto& [id, stream] : streams_) {
            if (stream->flow.closing) continue;
            advance(*stream);
            tell_scheduler(*stream);
            renew_waiting(*stream);
            admit(*stream);
            start_reads(*stream);
        }
        reader_->flush();
        trace_.reads_under_way(reader_->in_flight() > reader_->hung());
        for (const auto& [key, crew] : crews_.all()) {
            if (crew->is_native()) ask_headers(*crew);
            dispatch(*crew);
            crew->pool->flush();
        }
        flush_rows();
        if (needs_sweep_) sweep();
        crews_.sweep();
        if (!collect()) return false;
    }
    return true;
}

void Conductor::tell_scheduler(const Stream& stream) {
    Scheduler& scheduler = stream.flow.crew->scheduler;
    scheduler.update(stream.id(), stream.due_step(), stream.predictor().mean_ns());
    if (const auto taken = stream.ring().taken()) scheduler.taken(stream.id(), taken->step, taken->waited);
}

void Conductor::set_sleeping(bool sleeping) {
    for (const auto& [key, crew] : crews_.all())
        crew->pool->set_sleeping(sleeping);
    for (auto& [id, stream] : streams_) {
        if (!stream->flow.closing) stream->ring().set_sleeping(sleeping);
    }
}

bool Conductor::before_sleep() {
    if (turn()) return true;
    set_sleeping(true);
    return collect();  // something came between the last look and the flag: do not sleep on it
}

void Conductor::after_sleep() {
    set_sleeping(false);
}

void Conductor::close_file(Task& task) {
    if (task.fd < 0) return;
    reader_->close(task.fd, task.stream->dataset().mount(task.sample_id));
    task.fd = -1;
    --files_held_;
}

void Conductor::release_input(Task& task) {
    if (!std::exchange(task.has_input, false)) return;
    task.stream->flow.input_bytes -= task.bytes;
    const auto& domain = task.stream->flow.crew->domain;
    if (const auto header = std::exchange(task.header, std::nullopt)) {
        late_headers_[*header] = {domain, task.input_offset, task.bytes};  // until a worker has looked
    } else {
        domain->input.release(task.input_offset, task.bytes);
    }
}

void Conductor::release_slot(Task& task) {
    if (std::exchange(task.has_slot, false)) task.stream->slots().release(task.slot);
}

void Conductor::drop(Task& task) {
    close_file(task);
    release_input(task);
    release_slot(task);
    --task.stream->flow.tasks;
    tasks_.release(task);
}

void Conductor::sweep() {
    needs_sweep_ = false;
    for (auto it = streams_.begin(); it != streams_.end();) {
        Stream* stream = it->second.get();
        if (!stream->flow.closing || stream->flow.tasks > 0) {
            needs_sweep_ |= stream->flow.closing;
            ++it;
            continue;
        }
        stream->flow.crew->pool->remove_stream(stream->id());
        if (--stream->flow.crew->streams == 0) crews_.rest(*stream->flow.crew);
        trace_.gone(stream->id());
        auto on_gone = on_gone_.extract(stream->id());
        let_go_of_costs(stream->predictor().shared_model());
        stream->give_up(kept_memory_);
        it = streams_.erase(it);
        if (on_gone) on_gone.mapped()();
    }
}

}  // namespace sl
