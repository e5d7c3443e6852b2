// Strict reading of one JSON object: every key is known, typed and within its range, or it is an error.
//
// Used by the parsers of specs and of saved positions; one thread per parse. A `Section` returns a value for
// whatever it is asked, so the parser reads straight down; the first thing that is wrong is kept in
// `Problem`, and the caller looks at it once, at the end.
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "daemon/plan/spec_names.h"

namespace sl {

using Json = nlohmann::json;

// The first error of a parse; later ones are often its consequence.
class Problem {
  public:
    void report(Status status, std::string message) {
        if (!error_) error_ = Error{status, std::move(message), 0};
    }
    void report(std::string message) { report(Status::kSpec, std::move(message)); }
    [[nodiscard]] const std::optional<Error>& error() const { return error_; }

  private:
    std::optional<Error> error_;
};

struct Size {
    std::uint32_t height = 0;
    std::uint32_t width = 0;  // 0: `size` was one number, and the caller asked to tell that apart
};

enum class OneNumber { kSquare, kShortSide };

// JSON of at most `most` bytes in which no key comes twice; `what` ("the spec") opens its errors.
Result<Json> parse_document(std::string_view text, const std::string& what, std::size_t most);

// A scalar as JSON, shortened; "an object" or "an array" for the rest.
std::string describe(const Json& value);

std::string join(std::span<const std::string_view> words);

class Section {
  public:
    // `value` is the object at `path` ("" for the document itself); null stands for a missing object.
    Section(const Json* value, std::string path, std::span<const std::string_view> known, Problem& problem);

    [[nodiscard]] const Json* find(std::string_view key) const;
    [[nodiscard]] std::string path_of(std::string_view key) const;

    std::uint64_t whole(std::string_view key, std::uint64_t fallback, std::uint64_t low, std::uint64_t high);
    double number(std::string_view key, double fallback, double low, double high);
    bool flag(std::string_view key, bool fallback);
    std::uint64_t hex_digits(std::string_view key);        // required, as hex() writes them
    void require(std::span<const std::string_view> keys);  // each must be there
    std::string text(std::string_view key);                // required, not empty
    Size size(OneNumber one);                              // key "size", required
    // `count` finite numbers into `out`; without the key `out` stays as it is, unless it is `required`.
    void numbers(std::string_view key, std::span<double> out, bool required);

    // One of `names`; the first is the default.
    template <class T, std::size_t N>
    T choice(std::string_view key, const Named<T> (&names)[N]) {
        std::array<std::string_view, N> words;
        for (std::size_t i = 0; i < N; ++i)
            words[i] = names[i].name;
        return names[word(key, words)].value;
    }

    void report(std::string_view key, const Json& value, std::string_view allowed);

  private:
    std::size_t word(std::string_view key, std::span<const std::string_view> words);

    const Json* value_ = nullptr;
    std::string path_;
    Problem& problem_;
};

}  // namespace sl
