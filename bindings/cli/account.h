// Is every sample accounted for? Read from the stream's report (C API, sl_stream_report). Pure functions.
#pragma once

#include <nlohmann/json.hpp>

namespace sl::cli {

// True if the report has epochs, and in none of them a sample is missing or was given twice. A report that
// cannot be read accounts for nothing.
bool accounts_for_all(const nlohmann::json& report);

}  // namespace sl::cli
