// See watch.h.
#include "bindings/cli/watch.h"

namespace sl::cli {

Outcome<nlohmann::json> ask_status(sl_client* client) {
    nlohmann::json document = nlohmann::json::parse(status_text(client), nullptr, false);
    if (document.is_discarded()) return std::unexpected(Failure{kExitFailed, "the daemon gave no status"});
    return document;
}

Outcome<Look> look_at(sl_client* client) {
    Outcome<nlohmann::json> status = ask_status(client);
    if (!status) return std::unexpected(status.error());
    Look look{std::move(*status), {}};
    look.snapshot = read_snapshot(look.status);
    add_machine(look.snapshot);
    return look;
}

}  // namespace sl::cli
