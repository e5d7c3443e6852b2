// `speedyctl status`; see look.h.
#include "bindings/cli/look.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "bindings/cli/handles.h"
#include "bindings/cli/print.h"
#include "bindings/cli/spec.h"

namespace sl::cli {

namespace {

constexpr std::size_t kIndent = 2;

int complain(const std::string& message, int exit_status) {
    std::cerr << "speedyctl: " << message << "\n";
    return exit_status;
}

// A document for people: one "name  value" a line, what lies deeper is indented.
void print(const nlohmann::json& value, std::size_t indent) {
    for (const auto& [key, part] : value.items()) {
        std::string name = std::string(indent, ' ') + (value.is_array() ? "- " + key : key);
        if (part.is_structured()) {
            std::cout << name << (part.empty() ? ": none" : "") << "\n";
            print(part, indent + kIndent);
        } else {
            print_line(std::move(name), scalar(part));
        }
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

}  // namespace sl::cli
