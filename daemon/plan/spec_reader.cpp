// Strict reading of one JSON object; see spec_reader.h. One thread per parse; errors go to `Problem`.
#include "daemon/plan/spec_reader.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <vector>

namespace sl {
namespace {

constexpr std::size_t kShownCharacters = 60;
constexpr std::uint32_t kMaxSide = 65535;

std::string range(std::uint64_t low, std::uint64_t high) {
    return std::to_string(low) + " to " + std::to_string(high);
}

// JSON's own form of a number, so that 0.5 is shown as 0.5.
std::string shown(double v) {
    return Json(v).dump();
}

bool is_side(const Json& value) {
    return value.is_number_unsigned() && value.get<std::uint64_t>() >= 1 &&
           value.get<std::uint64_t>() <= kMaxSide;
}

// JSON lets a key come twice and most readers keep the last; a document that does so is a mistake.
class RepeatedKeys {
  public:
    explicit RepeatedKeys(Problem& problem) : problem_(problem) {}

    bool operator()(int /*depth*/, Json::parse_event_t event, Json& value) {
        if (event == Json::parse_event_t::object_start) open_.emplace_back();
        if (event == Json::parse_event_t::object_end) open_.pop_back();
        if (event == Json::parse_event_t::key && !open_.back().insert(value.get<std::string>()).second) {
            problem_.report("the key " + describe(value) + " comes twice in one object");
        }
        return true;
    }

  private:
    Problem& problem_;
    std::vector<std::set<std::string>> open_;
};

}  // namespace

Result<Json> parse_document(std::string_view text, const std::string& what, std::size_t most) {
    if (text.size() > most) {
        return fail(Status::kSpec, what + " has " + std::to_string(text.size()) +
                                       " bytes, allowed: " + std::to_string(most));
    }
    Problem problem;
    try {
        Json document = Json::parse(text, RepeatedKeys(problem));
        if (problem.error()) return std::unexpected(*problem.error());
        return document;
    } catch (const Json::exception& e) {
        // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
        const std::string_view why = e.what();
        const auto end = why.find("] ");
        return fail(Status::kSpec,
                    what + " is not JSON: " + std::string(end == why.npos ? why : why.substr(end + 2)));
    }
}

std::string describe(const Json& value) {
    if (value.is_object()) return "an object";
    if (value.is_array()) return "an array of " + std::to_string(value.size());
    std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
    if (text.size() > kShownCharacters) text = text.substr(0, kShownCharacters) + "...";
    return text;
}

std::string join(std::span<const std::string_view> words) {
    std::string out;
    for (const std::string_view word : words) {
        if (!out.empty()) out += ", ";
        out += word;
    }
    return out;
}

std::string hex(std::uint64_t value) {
    constexpr std::size_t kDigits = 16;
    std::array<char, kDigits> digits{};
    const char* end = std::to_chars(digits.data(), digits.data() + digits.size(), value, 16).ptr;
    const std::string_view text(digits.data(), end);
    return std::string(kDigits - text.size(), '0').append(text);
}

Section::Section(const Json* value, std::string path, std::span<const std::string_view> known,
                 Problem& problem)
    : path_(std::move(path)), problem_(problem) {
    if (value == nullptr) return;
    if (!value->is_object()) {
        problem_.report((path_.empty() ? "the spec" : path_) + " is " + describe(*value) +
                        ", allowed: an object with the keys " + join(known));
        return;
    }
    value_ = value;
    for (const auto& [key, ignored] : value->items()) {
        if (std::ranges::find(known, key) != known.end()) continue;
        problem_.report(path_of(describe(key).substr(1, key.size())) +
                        " is not a known key; known: " + join(known));
    }
}

const Json* Section::find(std::string_view key) const {
    if (value_ == nullptr) return nullptr;
    const auto found = value_->find(key);
    return found == value_->end() ? nullptr : &*found;
}

void Section::require(std::span<const std::string_view> keys) {
    for (const std::string_view key : keys) {
        if (value_ != nullptr && find(key) == nullptr) problem_.report(path_of(key) + " is missing");
    }
}

std::string Section::path_of(std::string_view key) const {
    return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

void Section::report(std::string_view key, const Json& value, std::string_view allowed) {
    problem_.report(path_of(key) + " is " + describe(value) + ", allowed: " + std::string(allowed));
}

std::uint64_t Section::whole(std::string_view key, std::uint64_t fallback, std::uint64_t low,
                             std::uint64_t high) {
    const Json* value = find(key);
    if (value == nullptr) return fallback;
    // A negative number is not "unsigned" here, and one of 2^64 or more has become a floating one.
    if (value->is_number_unsigned()) {
        const auto v = value->get<std::uint64_t>();
        if (v >= low && v <= high) return v;
    }
    report(key, *value, "a whole number from " + range(low, high));
    return fallback;
}

double Section::number(std::string_view key, double fallback, double low, double high) {
    const Json* value = find(key);
    if (value == nullptr) return fallback;
    if (value->is_number()) {
        const auto v = value->get<double>();
        if (v >= low && v <= high) return v;
    }
    report(key, *value, "a number from " + shown(low) + " to " + shown(high));
    return fallback;
}

bool Section::flag(std::string_view key, bool fallback) {
    const Json* value = find(key);
    if (value == nullptr) return fallback;
    if (value->is_boolean()) return value->get<bool>();
    report(key, *value, "true or false");
    return fallback;
}

std::uint64_t Section::hex_digits(std::string_view key) {
    const Json* value = find(key);
    if (value == nullptr) {
        problem_.report(path_of(key) + " is missing");
        return 0;
    }
    if (value->is_string()) {
        const auto& text = value->get_ref<const std::string&>();
        std::uint64_t number = 0;
        const auto read = std::from_chars(text.data(), text.data() + text.size(), number, 16);
        if (read.ec == std::errc() && hex(number) == text) return number;
    }
    report(key, *value, "16 hexadecimal digits, small letters");
    return 0;
}

std::string Section::text(std::string_view key) {
    const Json* value = find(key);
    if (value == nullptr) {
        problem_.report(path_of(key) + " is missing");
        return {};
    }
    if (value->is_string()) {
        auto v = value->get<std::string>();
        if (!v.empty() && v.find('\0') == std::string::npos) return v;
    }
    report(key, *value, "a string that is not empty and has no NUL in it");
    return {};
}

Size Section::size(OneNumber one) {
    const Json* value = find("size");
    if (value == nullptr) {
        problem_.report(path_of("size") + " is missing");
        return {1, 1};
    }
    if (is_side(*value)) {
        const auto side = value->get<std::uint32_t>();
        return {side, one == OneNumber::kSquare ? side : 0};
    }
    if (value->is_array() && value->size() == 2 && is_side((*value)[0]) && is_side((*value)[1])) {
        return {(*value)[0].get<std::uint32_t>(), (*value)[1].get<std::uint32_t>()};
    }
    report("size", *value,
           std::string(one == OneNumber::kSquare ? "a side" : "the short side") +
               " or [height, width], each " + range(1, kMaxSide));
    return {1, 1};
}

void Section::numbers(std::string_view key, std::span<double> out, bool required) {
    const Json* value = find(key);
    if (value == nullptr) {
        if (required) problem_.report(path_of(key) + " is missing");
        return;
    }
    const bool fits = value->is_array() && value->size() == out.size() &&
                      std::ranges::all_of(*value, [](const Json& v) { return v.is_number(); });
    if (!fits) return report(key, *value, "an array of " + std::to_string(out.size()) + " numbers");
    std::ranges::transform(*value, out.begin(), [](const Json& v) { return v.get<double>(); });
}

std::size_t Section::word(std::string_view key, std::span<const std::string_view> words) {
    const Json* value = find(key);
    if (value == nullptr) return 0;
    if (value->is_string()) {
        const auto found = std::ranges::find(words, value->get_ref<const std::string&>());
        if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
    }
    report(key, *value, join(words));
    return 0;
}

}  // namespace sl
