#include "daemon/broker/rights.h"

#include <unistd.h>

#include <utility>

namespace sl {

namespace {

std::unexpected<Error> denied(const User& user, const std::string& path, const std::string& why) {
    return fail(Status::kDenied,
                "user " + std::to_string(user.uid) + " may not read \"" + path + "\": " + why);
}

}  // namespace

Result<void> Rights::renew(const std::vector<RootSetting>& roots, const Limits& limits) {
    std::vector<Served> opened;
    for (const RootSetting& setting : roots) {
        auto root = Root::open(setting.path);
        if (!root) return std::unexpected(std::move(root).error().because("[[root]] path"));
        opened.push_back({setting, std::move(*root)});
    }
    roots_ = std::move(opened);
    limits_ = limits;
    return {};
}

bool Rights::trusts(uid_t uid) const {
    return is_private_ || uid == ::geteuid();
}

// A root within another root gives more, never less: what a group may not read there, mode bits say.
Result<std::shared_ptr<const Reach>> Rights::reach(const User& user, const std::string& path) const {
    if (trusts(user.uid)) return nullptr;
    std::string others;
    for (const Served& served : roots_) {
        if (!served.root->holds(path)) continue;
        if (user.is_in(served.setting.gid)) return std::make_shared<const Reach>(served.root, user);
        others += (others.empty() ? "" : " or ") + ("\"" + served.setting.group + "\"");
    }
    if (others.empty()) {
        return denied(user, path,
                      "it is beneath no [[root]] of the daemon's configuration, and only user " +
                          std::to_string(::geteuid()) +
                          " may read elsewhere; add a [[root]] with its path and a group");
    }
    return denied(user, path, "its [[root]] is for the group " + others + "; join it and connect anew");
}

Limits Rights::limits(uid_t uid) const {
    if (trusts(uid)) return {.bytes = 0, .streams = 0, .clients = 0, .connects = 0};
    return limits_;
}

}  // namespace sl
