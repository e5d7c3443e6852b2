#include "daemon/stream/ledger.h"

#include <utility>

namespace sl {

namespace {
constexpr std::size_t kFailuresKept = 10000;
constexpr std::size_t kTextKept = 16U
                                  << 20;  // of all failures; then what is longer than others' loses its begin
constexpr std::size_t kShortText = 1024;
constexpr std::size_t kEpochsKept = 1000;  // closed accounts that a report still shows
}  // namespace

void Ledger::plan_epoch(std::uint64_t epoch, std::uint64_t planned, std::uint64_t dropped,
                        std::uint64_t resumed_at) {
    Epoch& entry = accounts_[epoch];
    entry.account.planned = planned;
    entry.account.dropped = dropped;
    entry.account.resumed_at = resumed_at;
    entry.seen.assign(samples_, false);
    if (accounts_.size() > kEpochsKept && accounts_.begin()->second.account.closed) {
        accounts_.erase(accounts_.begin());
    }
}

void Ledger::delivered(std::uint64_t epoch, std::uint64_t position) {
    Epoch& entry = accounts_[epoch];
    if (position >= entry.seen.size() || entry.seen[position]) {
        ++entry.account.repeated;
        return;
    }
    entry.seen[position] = true;
    ++entry.account.delivered;
}

std::int64_t Ledger::failed(Failure failure, bool planned) {
    if (planned) ++accounts_[failure.epoch].account.failed;
    ++failure_count_;
    if (failures_.size() >= kFailuresKept) return -1;
    std::string& text = failure.error.message;
    if (text.size() > kShortText && text_bytes_ > kTextKept) text.erase(0, text.size() - kShortText);
    text_bytes_ += text.size();
    failures_.push_back(std::move(failure));
    return static_cast<std::int64_t>(failures_.size()) - 1;
}

void Ledger::set_substitute(std::int64_t index, std::uint64_t id) {
    if (index >= 0) failures_[static_cast<std::size_t>(index)].substitute = static_cast<std::int64_t>(id);
}

const EpochAccount& Ledger::close_epoch(std::uint64_t epoch) {
    Epoch& entry = accounts_[epoch];
    EpochAccount& account = entry.account;
    std::uint64_t accounted = account.delivered + account.failed;
    account.missing = account.planned > accounted ? account.planned - accounted : 0;
    account.closed = true;
    entry.seen = {};
    return account;
}

std::vector<std::pair<std::uint64_t, EpochAccount>> Ledger::accounts() const {
    std::vector<std::pair<std::uint64_t, EpochAccount>> all;
    for (const auto& [epoch, entry] : accounts_)
        all.emplace_back(epoch, entry.account);
    return all;
}

}  // namespace sl
