// See cost_room.h.
#include "daemon/predict/cost_room.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <list>
#include <map>
#include <string_view>
#include <system_error>

namespace sl {

namespace {

namespace fs = std::filesystem;

constexpr std::chrono::minutes kWritersTake{10};

struct Kept {
    fs::path path;
    fs::file_time_type time;
    std::uint64_t bytes = 0;
};

// "u1000" of "u1000-...", "" of the daemon's own.
std::string learner_of(const fs::path& path) {
    const std::string name = path.filename().string();
    return name.starts_with('u') ? name.substr(0, name.find('-')) : "";
}

// A user's files, the newest first.
class Share {
  public:
    void add(Kept file) {
        used_.files += 1;
        used_.bytes += file.bytes;
        files_.push_back(std::move(file));
    }
    void sort() {
        files_.sort([](const Kept& a, const Kept& b) { return a.time > b.time; });
    }
    [[nodiscard]] const CostRoom& used() const { return used_; }
    void lose_oldest() {
        std::error_code error;
        fs::remove(files_.back().path, error);
        used_.files -= 1;
        used_.bytes -= files_.back().bytes;
        files_.pop_back();
    }

  private:
    std::list<Kept> files_;
    CostRoom used_;
};

bool is_over(const CostRoom& used, const CostRoom& most) {
    return used.files > most.files || used.bytes > most.bytes;
}

std::map<std::string, Share> shares_of(const std::string& folder) {
    std::map<std::string, Share> shares;
    const auto now = fs::file_time_type::clock::now();
    std::error_code error;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
        std::error_code gone;
        if (!it->is_regular_file(gone)) continue;
        const Kept file{it->path(), it->last_write_time(gone), it->file_size(gone)};
        if (gone) continue;
        if (file.path.extension() == ".new" && now - file.time > kWritersTake) {
            fs::remove(file.path, gone);
        } else {
            shares[learner_of(file.path)].add(file);
        }
    }
    return shares;
}

}  // namespace

void make_cost_room(const std::string& folder) {
    auto shares = shares_of(folder);
    CostRoom all;
    for (auto& [learner, share] : shares) {
        share.sort();
        while (is_over(share.used(), kRoomOfOneUser))
            share.lose_oldest();
        all.files += share.used().files;
        all.bytes += share.used().bytes;
    }
    while (is_over(all, kRoomOfAll)) {
        const bool by_files = all.files > kRoomOfAll.files;
        const auto measure = [&](const auto& entry) {
            const CostRoom& used = entry.second.used();
            return by_files ? used.files : used.bytes;
        };
        Share& most = std::ranges::max_element(shares, {}, measure)->second;
        const CostRoom before = most.used();
        most.lose_oldest();
        all.files -= before.files - most.used().files;
        all.bytes -= before.bytes - most.used().bytes;
    }
}

}  // namespace sl
