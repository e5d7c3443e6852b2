// `speedyctl status` and `speedyctl scan`; see look.h.
#include "bindings/cli/look.h"

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "bindings/cli/handles.h"
#include "bindings/cli/spec.h"

namespace sl::cli {

namespace {

constexpr std::size_t kIndent = 2;
constexpr std::size_t kColumn = 24;

int complain(const std::string& message, int exit_status) {
    std::cerr << "speedyctl: " << message << "\n";
    return exit_status;
}

std::string scalar(const nlohmann::json& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
}

// A document for people: one "name  value" a line, what lies deeper is indented.
void print(const nlohmann::json& value, std::size_t indent) {
    for (const auto& [key, part] : value.items()) {
        std::string name = std::string(indent, ' ') + (value.is_array() ? "- " + key : key);
        if (part.is_structured()) {
            std::cout << name << (part.empty() ? ": none" : "") << "\n";
            print(part, indent + kIndent);
        } else {
            name.resize(std::max(name.size() + 1, kColumn), ' ');
            std::cout << name << scalar(part) << "\n";
        }
    }
}

// "hidden  3 files, as .made": only reasons that left something out.
void print_skipped(const nlohmann::json& reasons) {
    for (const auto& [reason, skipped] : reasons.items()) {
        if (!skipped.is_object() || skipped.value("count", 0) == 0) continue;
        std::string name = "skipped: " + reason;
        name.resize(std::max(name.size() + 1, kColumn), ' ');
        std::cout << name << skipped["count"];
        auto examples = skipped.find("examples");
        if (examples != skipped.end() && examples->is_array() && !examples->empty()) {
            std::cout << ", as " << scalar(examples->front());
        }
        std::cout << "\n";
    }
}

}  // namespace

int status(const std::string& socket, bool json) {
    sl_connect_options options{};
    options.struct_size = sizeof options;
    options.flags = SL_CONNECT_NO_SPAWN;
    options.socket = socket.empty() ? nullptr : socket.c_str();
    options.program = "speedyctl";
    sl_client* connected = nullptr;
    sl_status found = sl_connect(&options, &connected);
    Client client(connected);
    if (found == SL_E_NO_DAEMON) return complain("no daemon is running", kExitFailed);
    if (found != SL_OK) return complain(last_error_text(), kExitFailed);
    nlohmann::json document = nlohmann::json::parse(status_text(client.get()), nullptr, false);
    if (document.is_discarded()) return complain("the daemon gave no status", kExitFailed);
    if (json) {
        std::cout << json_text(document) << std::endl;
    } else {
        print(document, 0);
    }
    return kExitGood;
}

int scan(const std::string& folder, const std::string& socket, bool json) {
    std::error_code error;
    if (!std::filesystem::is_directory(folder, error)) return complain("no folder " + folder, kExitUsage);
    std::string absolute = std::filesystem::absolute(folder, error).lexically_normal().string();
    Outcome<Client> client = connect(socket, 0);
    if (!client) return complain(client.error().message, client.error().exit_status);
    Outcome<Stream> stream = open(client->get(), json_text(quickstart_spec(absolute, 1)));
    if (!stream) return complain(stream.error().message, stream.error().exit_status);
    sl_stream_info info{};
    info.struct_size = sizeof info;
    sl_stream_get_info(stream->get(), &info);
    nlohmann::json report = nlohmann::json::parse(report_text(stream->get()), nullptr, false);
    if (!report.is_object()) return complain("the daemon gave no report", kExitFailed);
    nlohmann::json skipped = report.value("skipped_files", nlohmann::json::object());
    if (json) {
        nlohmann::json found = {{"folder", absolute}, {"samples", info.samples}, {"skipped_files", skipped}};
        std::cout << json_text(found) << std::endl;
    } else {
        print({{"folder", absolute}, {"samples", info.samples}}, 0);
        print_skipped(skipped);
    }
    return kExitGood;
}

}  // namespace sl::cli
