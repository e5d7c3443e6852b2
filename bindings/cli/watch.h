// Asking the running daemon how it is doing, for the verbs that look. One thread.
#pragma once

#include <nlohmann/json.hpp>

#include "bindings/cli/handles.h"
#include "bindings/cli/snapshot.h"

namespace sl::cli {

Outcome<nlohmann::json> ask_status(sl_client* client);

struct Look {
    nlohmann::json status;
    Snapshot snapshot;
};
Outcome<Look> look_at(sl_client* client);

}  // namespace sl::cli
