// How much one user may have of a shared daemon, and how often its clients may connect.
//
// Owned by the server, on the conductor's thread. Limits are plain numbers; who exceeds one is told its name
// and the number, and costs nobody else anything. 0: no limit.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "shm/error.h"

namespace sl {

struct Limits {
    std::optional<std::uint64_t> bytes;  // of shared memory; not set: half of the daemon's
    std::uint64_t streams = 256;
    std::uint64_t clients = 1024;  // connections, guest workers included
    std::uint64_t connects = 100;  // a second, and so many at once

    bool operator==(const Limits&) const = default;
};

// kBudget: "user 7 has 4 streams, and may have 4 ([limits] streams)".
Error beyond_limit(uid_t uid, std::uint64_t limit, std::string_view name);

// Counts connections: each user has a bucket that holds a second's worth, and fills at that rate.
class ConnectRate {
  public:
    using Clock = std::chrono::steady_clock;

    // Takes one from the user's bucket; false if it is empty.
    bool take(uid_t uid, std::uint64_t per_second, Clock::time_point now);

  private:
    struct Bucket {
        double left = 0;
        Clock::time_point filled;
    };
    std::map<uid_t, Bucket> buckets_;
};

}  // namespace sl
