// See cost_store.h.
#include "daemon/predict/cost_store.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>

#include "shm/wake.h"

namespace sl {

namespace {
constexpr std::chrono::seconds kSaveEvery{60};
constexpr std::chrono::seconds kWaitForFile{1};
constexpr std::chrono::seconds kLastWrite{2};  // how long the daemon's end waits for it
}  // namespace

Result<std::unique_ptr<CostStore>> CostStore::create(EventLoop& loop, const std::string& folder) {
    auto state = std::make_shared<State>();
    state->folder = folder;
    std::unique_ptr<CostStore> store(new CostStore(loop, state));
    if (folder.empty()) return store;
    auto event = make_event_fd();
    if (!event) return std::unexpected(std::move(event).error());
    state->event = std::move(*event);
    auto added = loop.add(state->event.get(), [raw = store.get()](std::uint32_t) { raw->take_answers(); });
    if (!added) return std::unexpected(added.error());
    store->start_thread();
    return store;
}

void CostStore::start_thread() {
    State& state = *state_;
    try {
        state.ended = false;
        std::thread([shared = state_] { work_on(*shared); }).detach();
    } catch (const std::system_error& error) {
        state.ended = true;
        state.folder.clear();
        spdlog::warn("costs will be forgotten: no thread to write them ({})", error.what());
    }
}

CostStore::~CostStore() {
    if (state_->event) loop_.remove(state_->event.get());
    loop_.cancel(timer_);
    for (Entry& entry : entries_) {
        if (auto model = entry.model.lock()) save(entry, model);
    }
    std::unique_lock lock(state_->mutex);
    state_->stopping = true;
    state_->news.notify_all();
    if (!state_->at_end.wait_for(lock, kLastWrite, [this] { return state_->ended; }))
        spdlog::warn("leaving before {} has been written", state_->folder);
}

void CostStore::work_on(State& state) {
    std::unique_lock lock(state.mutex);
    while (true) {
        state.news.wait(lock, [&] { return state.stopping || !state.jobs.empty(); });
        if (state.jobs.empty()) break;
        const Job job = std::move(state.jobs.front());
        state.jobs.pop_front();
        lock.unlock();
        work(state, job);
        lock.lock();
    }
    state.ended = true;
    state.at_end.notify_all();
}

void CostStore::work(State& state, const Job& job) {
    try {
        if (job.model == nullptr) {
            auto kept = load_costs(cost_path(state.folder, job.key), job.key);
            const std::lock_guard lock(state.mutex);
            state.answers.push_back({job.key, std::move(kept)});
            ring(state.event.get());
        } else if (auto saved = save_costs(state.folder, job.key, job.learned, job.model->history());
                   !saved) {
            spdlog::warn("costs are not kept: {}", saved.error().message);
        }
    } catch (const std::exception& error) {
        spdlog::warn("costs are not kept: {}", error.what());
    }
}

void CostStore::give(Job job) {
    const std::lock_guard lock(state_->mutex);
    // A stream waits for what is read, and nobody for what is written. No model is both at once.
    auto first_write =
        std::ranges::find_if(state_->jobs, [](const Job& other) { return other.model != nullptr; });
    state_->jobs.insert(job.model ? state_->jobs.end() : first_write, std::move(job));
    state_->news.notify_all();
}

CostStore::Entry* CostStore::entry_of(const CostKey& key) {
    auto found = std::ranges::find(entries_, key, &Entry::key);
    return found == entries_.end() ? nullptr : &*found;
}

std::shared_ptr<CostModel> CostStore::open(std::uint64_t dataset, std::uint64_t samples,
                                           const Pipeline& pipeline, std::optional<uid_t> learned_by) {
    std::erase_if(entries_, [](const Entry& entry) { return entry.model.expired(); });
    const CostKey key{dataset, pipeline_hash(pipeline), samples,
                      learned_by ? std::uint64_t{*learned_by} + 1 : CostKey::kOwn};
    if (Entry* entry = entry_of(key)) {
        if (auto model = entry->model.lock()) return model;
        std::erase_if(entries_, [&](const Entry& gone) { return gone.key == key; });  // this very moment
    }
    auto model = std::make_shared<CostModel>(pipeline, samples);
    const bool kept = !state_->folder.empty() && samples <= kMostKeptSamples;
    entries_.push_back({.key = key, .model = model, .saved_at = 0, .ready = !kept});
    if (!kept) return model;
    give({key, nullptr, {}});
    loop_.after(kWaitForFile, [this, key, waits = std::weak_ptr(model)] {
        Entry* entry = entry_of(key);
        if (waits.expired() || entry == nullptr || entry->ready) return;
        entry->ready = true;
        spdlog::warn("{} does not answer: costs are learned anew", cost_path(state_->folder, key));
    });
    if (timer_ == 0) timer_ = loop_.after(kSaveEvery, [this] { save_now_and_then(); });
    return model;
}

bool CostStore::is_ready(const CostModel& model) const {
    return std::ranges::all_of(
        entries_, [&](const Entry& entry) { return entry.ready || entry.model.lock().get() != &model; });
}

void CostStore::take_answers() {
    quiet(state_->event.get());
    std::vector<Answer> answers;
    {
        const std::lock_guard lock(state_->mutex);
        answers.swap(state_->answers);
    }
    for (Answer& answer : answers)
        take(answer);
}

void CostStore::take(Answer& answer) {
    Entry* entry = entry_of(answer.key);
    if (entry == nullptr || entry->ready) return;  // too late, or nobody waits any more
    entry->ready = true;
    auto model = entry->model.lock();
    if (model == nullptr) return;
    if (answer.kept) {
        model->restore(answer.kept->learned, std::move(answer.kept->history));
    } else if (answer.kept.error().status != Status::kNotFound) {
        spdlog::warn("{} is begun anew: {}", cost_path(state_->folder, answer.key),
                     answer.kept.error().message);
    }
}

void CostStore::save(Entry& entry, const std::shared_ptr<CostModel>& model) {
    const bool kept = !state_->folder.empty() && entry.key.samples <= kMostKeptSamples;
    if (!kept || model->observations() == entry.saved_at) return;
    entry.saved_at = model->observations();
    give({entry.key, model, model->learned()});
}

void CostStore::ended(const std::shared_ptr<CostModel>& model) {
    for (Entry& entry : entries_) {
        if (entry.model.lock() == model) save(entry, model);
    }
}

void CostStore::save_now_and_then() {
    timer_ = 0;
    for (Entry& entry : entries_) {
        auto model = entry.model.lock();
        if (model == nullptr) continue;
        save(entry, model);
        if (timer_ == 0) timer_ = loop_.after(kSaveEvery, [this] { save_now_and_then(); });
    }
}

}  // namespace sl
