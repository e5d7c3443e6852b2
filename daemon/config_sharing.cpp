// The configuration's [[root]] and [limits]: who else may read what, and how much each of them may have. See
// config.h.
#include <grp.h>
#include <sys/stat.h>

#include <cerrno>
#include <optional>

#include "daemon/config_reader.h"

namespace sl {

namespace {

constexpr NumberRange kLimitAllowed{0, 1'000'000'000};  // 0: no limit
constexpr std::size_t kMostGroupText = std::size_t{1} << 20;  // of a group with many members

Result<gid_t> group_number(const std::string& name) {
    group entry{};
    group* found = nullptr;
    std::vector<char> text(4096);
    int error = ::getgrnam_r(name.c_str(), &entry, text.data(), text.size(), &found);
    while (error == ERANGE && text.size() < kMostGroupText) {
        text.resize(4 * text.size());
        error = ::getgrnam_r(name.c_str(), &entry, text.data(), text.size(), &found);
    }
    if (found != nullptr) return found->gr_gid;
    return fail(Status::kInvalidArgument, "there is no group \"" + name + "\"");
}

Result<void> set_path(const toml::node& node, RootSetting& root) {
    root.path = node.value_or<std::string>("");
    if (!root.path.starts_with('/')) return fail(Status::kInvalidArgument, "must be an absolute path");
    struct stat status = {};
    if (::stat(root.path.c_str(), &status) != 0)
        return std::unexpected(os_error(Status::kInvalidArgument, "\"" + root.path + "\"", errno));
    if (!S_ISDIR(status.st_mode)) return fail(Status::kInvalidArgument, "\"" + root.path + "\" is no folder");
    return {};
}

// By name, or by number: a group may be known to another host only.
Result<void> set_group(const toml::node& node, RootSetting& root) {
    if (auto number = node.value_exact<std::int64_t>(); number && *number >= 0 && *number < UINT32_MAX) {
        root.gid = static_cast<gid_t>(*number);
        root.group = std::to_string(*number);
        return {};
    }
    auto name = node.value_exact<std::string>();
    if (!name || name->empty()) return fail(Status::kInvalidArgument, "must be a group's name or number");
    auto number = group_number(*name);
    if (!number) return std::unexpected(std::move(number).error());
    root.gid = *number;
    root.group = *name;
    return {};
}

}  // namespace

Result<void> read_limits(const toml::table& table, const std::string& path, Limits& limits) {
    return read_keys(table, "limits", path,
                     {{"bytes", byte_count(limits.bytes)},
                      {"streams", whole_number(limits.streams, kLimitAllowed)},
                      {"clients", whole_number(limits.clients, kLimitAllowed)},
                      {"connects", whole_number(limits.connects, kLimitAllowed)}});
}

Result<void> read_roots(const toml::node& node, const std::string& path, std::vector<RootSetting>& roots) {
    const toml::array* list = node.as_array();
    if (list == nullptr || !list->is_homogeneous(toml::node_type::table)) {
        return fail(Status::kInvalidArgument,
                    config_place(node, path) + ": root is a list of sections: write [[root]] above each");
    }
    for (const toml::node& entry : *list) {
        RootSetting root;
        auto read = read_keys(*entry.as_table(), "root", path,
                              {{"path", [&](const toml::node& value) { return set_path(value, root); }},
                               {"group", [&](const toml::node& value) { return set_group(value, root); }}});
        if (!read) return read;
        if (root.path.empty() || root.group.empty()) {
            return fail(Status::kInvalidArgument, config_place(entry, path) + ": a root has a " +
                                                      (root.path.empty() ? "path" : "group") +
                                                      ", this one has none");
        }
        roots.push_back(std::move(root));
    }
    return {};
}

}  // namespace sl
