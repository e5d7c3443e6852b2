// Lines for people: a name, and what there is to say of it in a column of its own. One thread; cannot fail.
#pragma once

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace sl::cli {

inline void print_line(std::string name, std::string_view text) {
    constexpr std::size_t kColumn = 24;
    name.resize(std::max(name.size() + 1, kColumn), ' ');
    std::cout << name << text << "\n";
}

// A string without its quotes; anything else as JSON has it.
inline std::string scalar(const nlohmann::json& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace sl::cli
