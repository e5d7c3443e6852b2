// See quarantine_lines.h.
#include "daemon/quarantine/quarantine_lines.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace sl {

namespace {

using Json = nlohmann::ordered_json;

// A byte of a path: true if it stands for itself.
bool is_plain(unsigned char byte) {
    return byte >= 0x20 && byte < 0x7F;
}

void append_hex(std::string& text, std::string_view before, unsigned char byte) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    text.append(before);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
}

std::optional<std::string> percent_decoded(std::string_view text) {
    std::string path;
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] != '%') {
            path += text[at];
            continue;
        }
        unsigned value = 0;
        const char* begin = text.data() + at + 1;
        if (text.size() - at < 3 || std::from_chars(begin, begin + 2, value, 16).ptr != begin + 2)
            return std::nullopt;
        path += static_cast<char>(value);
        at += 2;
    }
    return path;
}

SampleErrorKind kind_named(std::string_view name) {
    for (std::uint32_t i = 1; i < static_cast<std::uint32_t>(SampleErrorKind::kCount); ++i) {
        if (to_string(static_cast<SampleErrorKind>(i)) == name) return static_cast<SampleErrorKind>(i);
    }
    return SampleErrorKind::kNone;
}

std::optional<std::string> path_of(const Json& json) {
    if (!json.contains("path_percent")) return json.at("path").get<std::string>();
    return percent_decoded(json.at("path_percent").get<std::string>());
}

// A number with a fraction, or one that is too large, is no whole number here: what the library makes of
// those is undefined.
template <class Number>
Number whole(const Json& json, const char* key) {
    const Json& value = json.at(key);
    const bool fits = value.is_number_unsigned() || (std::is_signed_v<Number> && value.is_number_integer());
    if (!fits) throw Json::other_error::create(501, std::string(key) + " is no whole number", &value);
    return value.get<Number>();
}

// False if the line is not one of ours.
bool parse_line(std::string_view line, QuarantineEntries& entries) {
    Json json = Json::parse(line, nullptr, false);
    if (!json.is_object()) return false;
    try {
        QuarantineEntry entry;
        entry.size = whole<std::uint64_t>(json, "size");
        entry.mtime_ns = whole<std::int64_t>(json, "mtime_ns");
        entry.kind = kind_named(json.at("kind").get<std::string>());
        entry.reason = json.at("reason").get<std::string>();
        entry.offset = whole<std::int64_t>(json, "offset");
        entry.time = whole<std::int64_t>(json, "time");
        entry.context = whole<std::uint64_t>(json, "context");
        entry.version = json.at("version").get<std::string>();
        auto path = path_of(json);
        if (entry.kind == SampleErrorKind::kNone || !path) return false;
        entries[*path] = std::move(entry);
    } catch (const Json::exception&) {
        return false;
    }
    return true;
}

std::string line_of(const std::string& path, const QuarantineEntry& entry) {
    const bool is_text = is_utf8(path);
    Json json = {{is_text ? "path" : "path_percent", is_text ? path : percent_encoded(path)},
                 {"size", entry.size},
                 {"mtime_ns", entry.mtime_ns},
                 {"kind", to_string(entry.kind)},
                 {"reason", entry.reason},
                 {"offset", entry.offset},
                 {"time", entry.time},
                 {"context", entry.context},
                 {"version", entry.version}};
    return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

QuarantineContent parse_quarantine(std::string_view text) {
    QuarantineContent content;
    for (std::size_t number = 1; !text.empty(); ++number) {
        auto end = text.find('\n');
        if (end == std::string_view::npos || !parse_line(text.substr(0, end), content.entries)) {
            content.entries.clear();
            content.damage = "line " + std::to_string(number) + " is damaged";
            return content;
        }
        text.remove_prefix(end + 1);
    }
    return content;
}

std::string write_quarantine(QuarantineEntries& entries) {
    struct Line {
        std::int64_t time;
        const std::string* path;
        std::string text;
    };
    std::vector<Line> lines;
    for (const auto& [path, entry] : entries)
        lines.push_back({entry.time, &path, line_of(path, entry)});
    std::ranges::stable_sort(lines, std::greater(), &Line::time);
    std::string text;
    std::size_t kept = 0;
    while (kept < std::min(lines.size(), kMostQuarantined) &&
           text.size() + lines[kept].text.size() <= static_cast<std::size_t>(kMostQuarantineBytes)) {
        text += lines[kept++].text;
    }
    for (; kept < lines.size(); ++kept) {
        const std::string path = *lines[kept].path;
        entries.erase(path);
    }
    return text;
}

bool is_utf8(const std::string& path) {
    try {
        (void)Json(path).dump();
    } catch (const Json::exception&) {
        return false;
    }
    return true;
}

std::string percent_encoded(std::string_view path) {
    std::string text;
    for (char byte : path) {
        const auto value = static_cast<unsigned char>(byte);
        if (is_plain(value) && byte != '%') {
            text += byte;
        } else {
            append_hex(text, "%", value);
        }
    }
    return text;
}

std::string shown(const std::string& path) {
    const bool is_harmless = is_utf8(path) && std::ranges::none_of(path, [](char byte) {
                                 return static_cast<unsigned char>(byte) < 0x20 || byte == 0x7F;
                             });
    if (is_harmless) return path;
    std::string text = "$'";
    for (char byte : path) {
        const auto value = static_cast<unsigned char>(byte);
        if (byte == '\'' || byte == '\\') text += '\\';
        if (is_plain(value)) {
            text += byte;
        } else {
            append_hex(text, "\\x", value);
        }
    }
    text += '\'';
    return text;
}

}  // namespace sl
