// The verdict over a report; see account.h.
#include "bindings/cli/account.h"

#include <algorithm>

namespace sl::cli {

namespace {

bool is_zero(const nlohmann::json& epoch, const char* key) {
    auto count = epoch.find(key);
    return count != epoch.end() && count->is_number_integer() && *count == 0;
}

}  // namespace

bool accounts_for_all(const nlohmann::json& report) {
    if (!report.is_object()) return false;
    auto epochs = report.find("epochs");
    if (epochs == report.end() || !epochs->is_array() || epochs->empty()) return false;
    return std::all_of(epochs->begin(), epochs->end(), [](const nlohmann::json& epoch) {
        return epoch.is_object() && is_zero(epoch, "missing") && is_zero(epoch, "repeated");
    });
}

}  // namespace sl::cli
