#include "daemon/broker/limits.h"

#include <algorithm>

namespace sl {

Error beyond_limit(uid_t uid, std::uint64_t limit, std::string_view name) {
    const std::string number = std::to_string(limit);
    if (name == "connects") {
        return {Status::kBudget,
                "user " + std::to_string(uid) + " connects too often: at most " + number +
                    " times a second ([limits] connects in the daemon's configuration)",
                0};
    }
    return {Status::kBudget,
            "user " + std::to_string(uid) + " has as many " + std::string(name) + " as it may have, " +
                number + " ([limits] " + std::string(name) + " in the daemon's configuration)",
            0};
}

bool ConnectRate::take(uid_t uid, std::uint64_t per_second, Clock::time_point now) {
    if (per_second == 0) return true;
    // A full bucket is as good as none.
    std::erase_if(buckets_,
                  [now](const auto& entry) { return now - entry.second.filled > std::chrono::seconds(1); });
    const auto most = static_cast<double>(per_second);
    Bucket& bucket = buckets_.try_emplace(uid, Bucket{most, now}).first->second;
    const std::chrono::duration<double> passed = now - bucket.filled;
    bucket.left = std::min(most, bucket.left + passed.count() * most);
    bucket.filled = now;
    if (bucket.left < 1) return false;
    bucket.left -= 1;
    return true;
}

}  // namespace sl
