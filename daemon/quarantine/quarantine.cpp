// See quarantine.h.
#include "daemon/quarantine/quarantine.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <ctime>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

namespace sl {

namespace {

// How long the daemon's end waits for the last write.
constexpr std::chrono::seconds kLastWrite{2};

bool is_its_own_fault(SampleErrorKind kind) {
    switch (kind) {
        case SampleErrorKind::kEmpty:
        case SampleErrorKind::kTruncated:
        case SampleErrorKind::kCorrupt:
        case SampleErrorKind::kUnsupportedFormat:
        case SampleErrorKind::kUnsupportedCoding:
        case SampleErrorKind::kUnsupportedDtype:
        case SampleErrorKind::kPixelBudget:
        case SampleErrorKind::kPoison:
            return true;
        default:
            return false;
    }
}

// FNV-1a, 64 bits.
std::uint64_t hash(std::span<const std::byte> bytes, std::uint64_t from = 0xCBF29CE484222325) {
    for (std::byte byte : bytes)
        from = (from ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001B3;
    return from;
}

// A damaged place outside the drawn region goes unnoticed (decode/jpeg.h), and a budget is the spec's.
std::uint64_t context_of(SampleErrorKind kind, const Quarantine::Attempt& attempt) {
    if (kind != SampleErrorKind::kCorrupt && kind != SampleErrorKind::kPixelBudget) return 0;
    std::uint64_t pipeline = hash(std::as_bytes(std::span(&attempt.pipeline, 1)));
    if (kind == SampleErrorKind::kPixelBudget) return pipeline;
    return hash(std::as_bytes(std::span(&attempt.draw, 1)), pipeline);
}

}  // namespace

std::unique_ptr<Quarantine> Quarantine::open(const std::string& path) {
    std::unique_ptr<Quarantine> made(new Quarantine(std::make_shared<State>()));
    made->state_->path = path;
    if (path.empty()) return made;
    made->refresh();
    made->start_writer();
    return made;
}

void Quarantine::start_writer() {
    State& state = *state_;
    try {
        state.ended = false;
        std::thread([shared = state_] { write_on(*shared); }).detach();
    } catch (const std::system_error& error) {
        state.ended = true;
        state.path.clear();
        spdlog::warn("bad samples will be forgotten: no thread to write them ({})", error.what());
    }
}

Quarantine::~Quarantine() {
    std::unique_lock lock(state_->mutex);
    state_->stopping = true;
    state_->news.notify_all();
    state_->at_end.wait_for(lock, kLastWrite, [this] { return state_->ended; });
}

std::optional<SampleError> Quarantine::find(const std::string& path, const Attempt& attempt) {
    State& state = *state_;
    std::lock_guard lock(state.mutex);
    auto found = state.entries.find(path);
    if (found == state.entries.end()) return std::nullopt;
    const QuarantineEntry& entry = found->second;
    bool same_file = entry.size == attempt.size && entry.mtime_ns == attempt.mtime_ns;
    if (!same_file || entry.version != SL_VERSION) {
        keep(state, {path, entry, true});
        state.entries.erase(found);
        return std::nullopt;
    }
    if (entry.context != context_of(entry.kind, attempt)) return std::nullopt;
    return SampleError{entry.kind, entry.reason, entry.offset, 0};
}

void Quarantine::remember(const std::string& path, const Attempt& attempt, const SampleError& error) {
    if (!is_its_own_fault(error.kind)) return;
    QuarantineEntry entry{attempt.size,
                          attempt.mtime_ns,
                          error.kind,
                          error.message,
                          error.offset,
                          std::time(nullptr),
                          context_of(error.kind, attempt),
                          SL_VERSION};
    State& state = *state_;
    std::lock_guard lock(state.mutex);
    // The file is cut to size when it is written; this is for a file that is not, or cannot be.
    if (state.entries.size() >= 2 * kMostQuarantined || state.changes.size() >= kMostQuarantined) return;
    state.entries[path] = entry;
    keep(state, {path, std::move(entry), false});
}

// With the lock held.
void Quarantine::keep(State& state, Change change) {
    if (state.path.empty()) return;
    state.changes.push_back(std::move(change));
    state.has_news = true;
    state.news.notify_all();
}

void Quarantine::refresh() {
    State& state = *state_;
    if (state.path.empty()) return;
    std::string now = quarantine_signature(state.path);
    {
        std::lock_guard lock(state.mutex);
        if (now == state.signature) return;
    }
    take_in(state, load_quarantine(state.path));
}

void Quarantine::write_on(State& state) {
    std::unique_lock lock(state.mutex);
    while (true) {
        state.news.wait(lock, [&] { return state.stopping || state.has_news; });
        const bool is_last = state.stopping;
        state.has_news = false;
        std::vector<Change> changes = std::exchange(state.changes, {});
        lock.unlock();
        const bool written = changes.empty() || take_in(state, write(state, changes));
        lock.lock();
        if (!written) state.changes.insert(state.changes.begin(), changes.begin(), changes.end());
        if (is_last) break;
    }
    state.ended = true;
    state.at_end.notify_all();
}

Result<QuarantineContent> Quarantine::write(State& state, const std::vector<Change>& changes) {
    return update_quarantine(state.path, [&](QuarantineEntries& entries) {
        for (const Change& change : changes) {
            auto found = entries.find(change.path);
            if (!change.forget) {
                entries[change.path] = change.entry;
            } else if (found != entries.end() && found->second == change.entry) {
                entries.erase(found);
            }
        }
    });
}

// The file's word goes over memory's, but for what has not been written yet. False, and memory as it was, if
// there is no word.
bool Quarantine::take_in(State& state, Result<QuarantineContent> content) {
    std::lock_guard lock(state.mutex);
    if (!content) {
        if (state.trouble != content.error().message) spdlog::warn("quarantine: {}", content.error().message);
        state.trouble = content.error().message;
        return false;
    }
    state.trouble.clear();
    if (!content->damage.empty()) {
        spdlog::warn("quarantine: {} is begun anew: {}", state.path, content->damage);
    }
    state.entries = std::move(content->entries);
    state.signature = std::move(content->signature);
    for (const Change& change : state.changes) {
        if (change.forget) {
            state.entries.erase(change.path);
        } else {
            state.entries[change.path] = change.entry;
        }
    }
    return true;
}

}  // namespace sl
