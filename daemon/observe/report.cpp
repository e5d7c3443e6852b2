// A stream's report; the status of the whole daemon is in status.cpp. See status.h.
#include <nlohmann/json.hpp>

#include "daemon/observe/status.h"
#include "daemon/observe/stream_json.h"
#include "daemon/plan/spec_names.h"

namespace sl {

namespace {

constexpr std::size_t kFailuresShown = 1000;

Json account_json(std::uint64_t epoch, const EpochAccount& account) {
    return {{"epoch", epoch},
            {"planned", account.planned},
            {"delivered", account.delivered},
            {"failed", account.failed},
            {"substituted", account.substituted},
            {"padding", account.padding},
            {"dropped", account.dropped},
            {"missing", account.missing},
            {"repeated", account.repeated},
            {"resumed_at", account.resumed_at},
            {"complete", account.closed}};
}

Json failure_json(const Failure& failure) {
    Json json = {{"sample_id", failure.sample_id},
                 {"path", failure.path},
                 {"kind", to_string(failure.error.kind)},
                 {"reason", failure.error.message},
                 {"epoch", failure.epoch},
                 {"batch", failure.batch},
                 {"row", failure.row}};
    json["offset"] = failure.error.offset == kNoOffset ? Json() : Json(failure.error.offset);
    json["errno"] = failure.error.os_errno == 0 ? Json() : Json(failure.error.os_errno);
    json["substitute"] = failure.substitute < 0 ? Json() : Json(failure.substitute);
    return json;
}

Json scan_json(const ScanReport& report) {
    Json json = {{"directories", report.directories}};
    for (std::size_t i = 0; i < report.skipped.size(); ++i) {
        const auto& skipped = report.skipped[i];
        json[std::string(to_string(static_cast<SkipReason>(i)))] = {{"count", skipped.count},
                                                                    {"examples", skipped.examples}};
    }
    return json;
}

// What stands for a manifest in a report: whether an earlier scan's was used, or why not.
Json manifest_json(const ManifestUse& use) {
    return {{"used", use.used}, {"kept", use.kept}, {"path", use.path}, {"note", use.note}};
}

// What the scan of a folder left out, and its manifest.
Json folder_json(const FolderSource& folder) {
    return {{"skipped_files", scan_json(folder.report())},
            {"manifest", manifest_json(folder.manifest_use())}};
}

Json parts_json(const Stream& stream) {
    Json parts = Json::array();
    for (const Dataset::Part& part : stream.dataset().parts()) {
        Json json = {{"path", stream.spec().parts[parts.size()].path},
                     {"first_id", part.first_id},
                     {"samples_in_folder", part.folder.size()},
                     {"selected", part.selection->size()},
                     {"samples", part.samples}};
        json.update(folder_json(part.folder));
        parts.push_back(std::move(json));
    }
    return parts;
}

}  // namespace

std::string report_json(const Stream& stream) {
    Json epochs = Json::array();
    for (const auto& [epoch, account] : stream.ledger().accounts())
        epochs.push_back(account_json(epoch, account));
    Json failures = Json::array();
    for (const Failure& failure : stream.ledger().failures()) {
        if (failures.size() == kFailuresShown) break;
        failures.push_back(failure_json(failure));
    }
    const Dataset& dataset = stream.dataset();
    Json json = {{"samples", dataset.samples()},
                 {"classes", dataset.classes()},
                 {"fingerprint", dataset.fingerprint()},
                 {"epochs", epochs},
                 {"failure_count", stream.ledger().failure_count()},
                 {"failures", failures}};
    if (dataset.is_mix()) {
        json["parts"] = parts_json(stream);
    } else if (!stream.is_items()) {
        json.update(folder_json(dataset.parts().front().folder));
    }
    json["stats"] = stream_json(stream);
    return dump(json);
}

}  // namespace sl
