#include "daemon/config.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string_view>

#include "daemon/config_reader.h"
#include "daemon/read_toml.h"
#include "daemon/stream/memory_budget.h"
#include "shm/control_group.h"
#include "shm/segment.h"

namespace sl {

namespace {

constexpr std::uint64_t kMiB = 1ULL << 20;
constexpr std::array<std::string_view, 6> kLogLevels = {"trace", "debug", "info", "warn", "error", "off"};

}  // namespace

Result<std::uint64_t> parse_bytes(const std::string& text) {
    char* end = nullptr;
    double value = std::strtod(text.c_str(), &end);
    std::string unit(end);
    std::erase(unit, ' ');
    const std::map<std::string, std::uint64_t> kUnits = {
        {"", 1},       {"B", 1},          {"K", 1ULL << 10},   {"KiB", 1ULL << 10}, {"M", kMiB},
        {"MiB", kMiB}, {"G", 1ULL << 30}, {"GiB", 1ULL << 30}, {"T", 1ULL << 40},   {"TiB", 1ULL << 40}};
    auto found = kUnits.find(unit);
    if (end == text.c_str() || !(value >= 0) || found == kUnits.end()) {
        return fail(Status::kInvalidArgument,
                    "\"" + text + "\" is no size; write \"4 GiB\", \"512M\" or bytes");
    }
    return static_cast<std::uint64_t>(value * static_cast<double>(found->second));
}

Result<std::chrono::milliseconds> parse_time(const std::string& text) {
    char* end = nullptr;
    double value = std::strtod(text.c_str(), &end);
    std::string unit(end);
    std::erase(unit, ' ');
    const std::map<std::string, double> kUnits = {{"", 1000}, {"s", 1000}, {"ms", 1}, {"min", 60'000}};
    auto found = kUnits.find(unit);
    double ms = found == kUnits.end() ? 0 : value * found->second;
    if (end == text.c_str() || !(ms >= 1) || ms > 86'400'000) {
        return fail(Status::kInvalidArgument,
                    "\"" + text + "\" is no time; write \"30 s\", \"500 ms\" or seconds");
    }
    return std::chrono::milliseconds(static_cast<std::int64_t>(ms));
}

Result<ReaderBackend> parse_backend(const std::string& text) {
    if (text == "auto") return ReaderBackend::kAuto;
    if (text == "uring") return ReaderBackend::kUring;
    if (text == "threads") return ReaderBackend::kThreads;
    return fail(Status::kInvalidArgument,
                "\"" + text + "\" is no I/O back end; choose auto, uring or threads");
}

namespace {

ConfigSetter truth(bool& target) {
    return [&target](const toml::node& node) -> Result<void> {
        if (!node.is_boolean()) return fail(Status::kInvalidArgument, "must be true or false");
        target = node.value_or(target);
        return {};
    };
}

// All but [[root]] and [limits].
std::map<std::string, ConfigSetter> daemon_keys(Config& config) {
    return {{"socket",
             [&](const toml::node& node) -> Result<void> {
                 if (!node.is_string()) return fail(Status::kInvalidArgument, "must be a path");
                 config.socket = node.value_or<std::string>("");
                 return {};
             }},
            {"workers",
             [&](const toml::node& node) -> Result<void> {
                 if (node.value<std::string>() == "auto") {
                     config.workers = 0;
                     return {};
                 }
                 return whole_number(config.workers, kWorkersAllowed)(node);
             }},
            {"memory", byte_count(config.memory)},
            {"input", byte_count(config.input)},
            {"io",
             [&](const toml::node& node) -> Result<void> {
                 auto backend = parse_backend(node.value_or<std::string>(""));
                 if (!backend) return std::unexpected(backend.error());
                 config.io = *backend;
                 return {};
             }},
            {"log_level",
             [&](const toml::node& node) -> Result<void> {
                 auto level = node.value<std::string>();
                 if (!level || std::ranges::find(kLogLevels, *level) == kLogLevels.end())
                     return fail(Status::kInvalidArgument, "must be trace, debug, info, warn, error or off");
                 config.log_level = *level;
                 return {};
             }},
            {"io_entries", whole_number(config.io_entries, kIoEntriesAllowed)},
            {"io_threads", whole_number(config.io_threads, kIoThreadsAllowed)},
            {"predict", truth(config.predict)},
            {"sandbox", truth(config.sandbox)},
            {"read_timeout", [&](const toml::node& node) -> Result<void> {
                 auto seconds = node.value<double>();
                 auto time = parse_time(seconds ? std::to_string(*seconds) : node.value_or<std::string>(""));
                 if (!time) return std::unexpected(time.error());
                 config.read_timeout = *time;
                 return {};
             }}};
}

}  // namespace

Result<void> load_config(const std::string& path, Config& config) {
    auto text = read_toml(path);
    if (!text) return std::unexpected(std::move(text).error());
    toml::table document;
    try {
        document = toml::parse(*text, path);
    } catch (const toml::parse_error& error) {
        return fail(Status::kInvalidArgument, path + " line " + std::to_string(error.source().begin.line) +
                                                  ": " + std::string(error.description()));
    }
    for (const auto& [key, node] : document) {
        Result<void> read;
        if (key.str() == "daemon" && node.is_table()) {
            read = read_keys(*node.as_table(), "daemon", path, daemon_keys(config));
        } else if (key.str() == "limits" && node.is_table()) {
            read = read_limits(*node.as_table(), path, config.limits);
        } else if (key.str() == "root") {
            read = read_roots(node, path, config.roots);
        } else {
            read =
                fail(Status::kInvalidArgument, config_place(node, path) + ": unknown section " +
                                                   std::string(key.str()) + "; known: daemon, limits, root");
        }
        if (!read) return read;
    }
    return {};
}

std::uint32_t usable_cores() {
    cpu_set_t set;
    std::uint32_t cores = 1;
    if (::sched_getaffinity(0, sizeof set, &set) == 0) cores = static_cast<std::uint32_t>(CPU_COUNT(&set));
    if (const double quota = ControlGroups().cores(); quota < cores)
        cores = static_cast<std::uint32_t>(std::ceil(quota));
    return std::max(cores, 1U);
}

void complete_config(Config& config) {
    if (config.workers == 0) config.workers = usable_cores();
    if (config.memory == 0) config.memory = available_memory() / 2;
    if (config.input == 0) config.input = std::clamp(config.memory / 64, 64 * kMiB, 256 * kMiB);
    if (!config.limits.bytes) config.limits.bytes = config.memory / 2;
}

namespace {

std::string limit_text(std::uint64_t limit) {
    return limit == 0 ? "none" : std::to_string(limit);
}

std::string describe_sharing(const Config& config) {
    const Limits& limits = config.limits;
    const std::uint64_t bytes = limits.bytes.value_or(0);
    std::string text = " limits.bytes=" + (bytes == 0 ? "none" : describe_bytes(bytes)) +
                       " limits.streams=" + limit_text(limits.streams) +
                       " limits.clients=" + limit_text(limits.clients) +
                       " limits.connects=" + limit_text(limits.connects);
    for (const RootSetting& root : config.roots)
        text += " root=" + root.path + " (group " + root.group + ")";
    return text;
}

}  // namespace

std::string describe_config(const Config& config) {
    const char* backend = config.io == ReaderBackend::kAuto    ? "auto"
                          : config.io == ReaderBackend::kUring ? "uring"
                                                               : "threads";
    return "socket=" + (config.socket.empty() ? std::string("(handed over)") : config.socket) +
           " workers=" + std::to_string(config.workers) + " memory=" + describe_bytes(config.memory) +
           " input=" + describe_bytes(config.input) + " io=" + backend +
           " io_entries=" + std::to_string(config.io_entries) +
           " io_threads=" + std::to_string(config.io_threads) +
           " read_timeout=" + std::to_string(config.read_timeout.count()) + "ms" +
           " predict=" + (config.predict ? "true" : "false") +
           " sandbox=" + (config.sandbox ? "true" : "false") + " log_level=" + config.log_level +
           describe_sharing(config);
}

}  // namespace sl
