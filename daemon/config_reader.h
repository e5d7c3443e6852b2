// How the sections of the configuration file are read: a table of keys, each with what sets its value.
//
// Used by config.cpp and config_sharing.cpp only. No state. Errors are kInvalidArgument and name file, line
// and key.
#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "daemon/broker/limits.h"
#include "daemon/broker/rights.h"
#include "daemon/config.h"
#include "shm/error.h"

namespace sl {

using ConfigSetter = std::function<Result<void>(const toml::node&)>;

// "FILE line N".
std::string config_place(const toml::node& node, const std::string& path);

template <class T>
ConfigSetter whole_number(T& target, NumberRange allowed) {
    return [&target, allowed](const toml::node& node) -> Result<void> {
        auto value = node.value_exact<std::int64_t>();
        if (!value || *value < allowed.least || *value > allowed.most) {
            return fail(Status::kInvalidArgument, "must be a whole number from " + std::to_string(allowed.least) +
                                                      " to " + std::to_string(allowed.most));
        }
        target = static_cast<T>(*value);
        return {};
    };
}

// A number, or text as parse_bytes takes it. Target: std::uint64_t, or an optional one.
template <class T>
ConfigSetter byte_count(T& target);

// Calls the setter of each key that the section has.
Result<void> read_keys(const toml::table& table, const std::string& section, const std::string& path,
                       const std::map<std::string, ConfigSetter>& known);

// config_sharing.cpp: [limits] and [[root]]
Result<void> read_limits(const toml::table& table, const std::string& path, Limits& limits);
Result<void> read_roots(const toml::node& node, const std::string& path, std::vector<RootSetting>& roots);

}  // namespace sl
