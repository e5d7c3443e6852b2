// See quarantine.h.
#include "bindings/cli/quarantine.h"

#include <ctime>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "bindings/cli/handles.h"
#include "daemon/quarantine/quarantine_file.h"
#include "daemon/quarantine/quarantine_lines.h"

namespace sl::cli {

namespace {

using Json = nlohmann::ordered_json;

int failed_with(const std::string& message, int status = kExitFailed) {
    std::cerr << "speedyctl: " << message << "\n";
    return status;
}

std::string time_text(std::int64_t seconds) {
    std::time_t time = seconds;
    std::tm parts{};
    char text[32] = "";
    if (::localtime_r(&time, &parts) != nullptr)
        std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
    return text;
}

// As a daemon names it: absolute, and not resolved.
std::string absolute(const std::string& path) {
    std::error_code error;
    auto made = std::filesystem::absolute(path, error).lexically_normal().string();
    if (made.size() > 1 && made.ends_with('/')) made.pop_back();
    return error ? path : made;
}

bool covers(const std::string& given, const std::string& path) {
    return path == given || given == "/" || (path.starts_with(given) && path[given.size()] == '/');
}

Json as_json(const std::string& path, const QuarantineEntry& entry) {
    Json json = {{"path", path},       {"kind", to_string(entry.kind)}, {"reason", entry.reason},
                 {"size", entry.size}, {"mtime_ns", entry.mtime_ns},    {"time", entry.time}};
    if (!is_utf8(path)) json["path_percent"] = percent_encoded(path);
    return json;
}

int without_a_place() {
    return failed_with("there is no place for a quarantine: set HOME or XDG_CACHE_HOME");
}

// Bytes that are no text become U+FFFD.
std::string line_of(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

int list_quarantine(bool json) {
    std::string path = quarantine_path();
    if (path.empty()) return without_a_place();
    auto content = load_quarantine(path);
    if (!content) return failed_with(content.error().message);
    if (!content->damage.empty()) return failed_with(path + ": " + content->damage);
    if (json) {
        Json list = Json::array();
        for (const auto& [name, entry] : content->entries)
            list.push_back(as_json(name, entry));
        std::cout << line_of({{"file", path}, {"entries", list}});
        return kExitGood;
    }
    for (const auto& [name, entry] : content->entries) {
        std::cout << time_text(entry.time) << "  " << to_string(entry.kind) << "  " << shown(name) << ": "
                  << shown(entry.reason) << "\n";
    }
    std::cout << content->entries.size() << (content->entries.size() == 1 ? " sample" : " samples")
              << " in quarantine (" << shown(path) << ")\n";
    return kExitGood;
}

int forgive_quarantine(const std::vector<std::string>& paths, bool all, bool json) {
    if (paths.empty() == !all) return failed_with("name the paths to forgive, or --all", kExitUsage);
    const std::string file = quarantine_path();
    if (file.empty()) return without_a_place();
    std::optional<std::string> unknown;
    std::size_t forgiven = 0;
    auto content = update_quarantine(file, [&](QuarantineEntries& entries) {
        QuarantineEntries kept = entries;
        if (all) kept.clear();
        for (const std::string& path : paths) {
            const std::string given = absolute(path);
            auto count =
                std::erase_if(kept, [&](const auto& item) { return covers(given, absolute(item.first)); });
            if (count == 0 && !unknown) unknown = given;
        }
        if (unknown) return;
        forgiven = entries.size() - kept.size();
        entries = std::move(kept);
    });
    if (!content) return failed_with(content.error().message);
    if (unknown) return failed_with(shown(*unknown) + " is not in quarantine; nothing was forgiven");
    if (json) {
        std::cout << Json{{"forgiven", forgiven}, {"left", content->entries.size()}}.dump() << "\n";
    } else {
        std::cout << forgiven << " forgiven, " << content->entries.size() << " left\n";
    }
    return kExitGood;
}

}  // namespace sl::cli
