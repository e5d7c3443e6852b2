// Who may open which dataset, and how much of the daemon: the configuration's [[root]] and [limits].
//
// Owned by the server, on the conductor's thread; renew() changes it while the daemon runs, and what is open
// stays open. The daemon's own user opens whatever the daemon can read, without limits, and so does everybody
// whom a private daemon lets in, for it serves one user. All others, user 0 too, open what lies beneath a
// root of one of their groups and what they could read themselves (io/reach.h). A refusal is decided by names
// alone, before anything is looked up: it is the same whether a folder exists or not, and whatever others
// have scanned.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "daemon/broker/limits.h"
#include "io/reach.h"
#include "shm/error.h"

namespace sl {

// One [[root]] of the configuration.
struct RootSetting {
    std::string path;
    std::string group;
    gid_t gid = 0;

    bool operator==(const RootSetting&) const = default;
};

class Rights {
  public:
    explicit Rights(bool is_private) : is_private_(is_private) {}

    // Opens the roots; on an error all stays as it was.
    Result<void> renew(const std::vector<RootSetting>& roots, const Limits& limits);

    // The daemon's own user, or anybody at a private daemon.
    [[nodiscard]] bool trusts(uid_t uid) const;
    // Through what `user` opens the folder `path` (absolute); null: as the daemon does. kDenied, with what to
    // do.
    [[nodiscard]] Result<std::shared_ptr<const Reach>> reach(const User& user, const std::string& path) const;
    // All 0 for who is trusted.
    [[nodiscard]] Limits limits(uid_t uid) const;

  private:
    struct Served {
        RootSetting setting;
        std::shared_ptr<const Root> root;
    };
    bool is_private_;
    std::vector<Served> roots_;
    Limits limits_;
};

}  // namespace sl
