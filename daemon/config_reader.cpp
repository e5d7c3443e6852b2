#include "daemon/config_reader.h"

#include <optional>

namespace sl {

std::string config_place(const toml::node& node, const std::string& path) {
    return path + " line " + std::to_string(node.source().begin.line);
}

template <class T>
ConfigSetter byte_count(T& target) {
    return [&target](const toml::node& node) -> Result<void> {
        if (auto value = node.value_exact<std::int64_t>(); value && *value >= 0) {
            target = static_cast<std::uint64_t>(*value);
            return {};
        }
        auto parsed = parse_bytes(node.value_or<std::string>(""));
        if (!parsed) return std::unexpected(parsed.error());
        target = *parsed;
        return {};
    };
}
template ConfigSetter byte_count(std::uint64_t& target);
template ConfigSetter byte_count(std::optional<std::uint64_t>& target);

Result<void> read_keys(const toml::table& table, const std::string& section, const std::string& path,
                       const std::map<std::string, ConfigSetter>& known) {
    for (const auto& [key, node] : table) {
        auto found = known.find(std::string(key.str()));
        std::string name = section + "." + std::string(key.str());
        if (found == known.end()) {
            return fail(Status::kInvalidArgument, config_place(node, path) + ": unknown key " + name);
        }
        if (auto set = found->second(node); !set) {
            return std::unexpected(std::move(set).error().because(config_place(node, path) + ": " + name));
        }
    }
    return {};
}

}  // namespace sl
