#include "daemon/read_toml.h"

#include <cctype>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <string_view>

namespace sl {

namespace {

std::string_view without_blanks(std::string_view text) {
    const auto first = text.find_first_not_of(" \t");
    return first == std::string_view::npos ? std::string_view() : text.substr(first);
}

// toml++ 3.3 takes for granted that a name follows `[`: without assertions what it does then is undefined,
// with them it aborts. Found by fuzzing.
bool opens_no_section(std::string_view line) {
    line = without_blanks(line);
    if (!line.starts_with('[')) return false;
    line = line.substr(line.starts_with("[[") ? 2 : 1);
    line = without_blanks(line);
    if (line.empty()) return true;
    const char first = line.front();
    const bool is_name = std::isalnum(static_cast<unsigned char>(first)) != 0 || first == '_' ||
                         first == '-' || first == '"' || first == '\'';
    return !is_name && first != ']';
}

// A bare key has no such byte, and its classification of those that come in pairs reaches what it calls
// unreachable. Found in the same way. Strings that span lines are no values of any key here.
bool has_bare_foreign_letter(std::string_view line) {
    char quote = '\0';
    for (std::size_t at = 0; at < line.size(); ++at) {
        const char letter = line[at];
        if (quote == '\0' && letter == '#') return false;
        if (quote == '\0' && static_cast<unsigned char>(letter) >= 0x80) return true;
        if (quote == '"' && letter == '\\') {
            ++at;
        } else if (quote == letter) {
            quote = '\0';
        } else if (quote == '\0' && (letter == '"' || letter == '\'')) {
            quote = letter;
        }
    }
    return false;
}

}  // namespace

Result<std::string> read_toml(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    if (!file.is_open() || file.bad()) {
        return std::unexpected(os_error(Status::kIo, "cannot read " + path, errno));
    }
    std::size_t number = 1;
    for (std::string_view rest = text; !rest.empty(); ++number) {
        const auto end = rest.find('\n');
        const std::string_view line = rest.substr(0, end);
        const std::string place = path + " line " + std::to_string(number) + ": ";
        if (opens_no_section(line))
            return fail(Status::kInvalidArgument, place + "a section's name must follow \"[\"");
        if (has_bare_foreign_letter(line))
            return fail(Status::kInvalidArgument, place + "letters beyond ASCII stand in quotes only");
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
    return text;
}

}  // namespace sl
