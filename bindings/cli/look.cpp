// `speedyctl status` and `verdict`; see look.h.
#include "bindings/cli/look.h"

#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "bindings/cli/handles.h"
#include "bindings/cli/print.h"
#include "bindings/cli/spec.h"
#include "bindings/cli/verdict.h"
#include "bindings/cli/watch.h"

namespace sl::cli {

namespace {

constexpr std::size_t kIndent = 2;

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
    Outcome<Client> client = connect_to_running(socket);
    if (!client) return complain(client.error());
    Outcome<nlohmann::json> document = ask_status(client->get());
    if (!document) return complain(document.error());
    if (json) {
        std::cout << json_text(*document) << std::endl;
    } else {
        print(*document, 0);
    }
    return kExitGood;
}

int verdict(const std::string& socket, double seconds, bool json) {
    Outcome<Client> client = connect_to_running(socket);
    if (!client) return complain(client.error());
    Outcome<Look> before = look_at(client->get());
    if (!before) return complain(before.error());
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    Outcome<Look> after = look_at(client->get());
    if (!after) return complain(after.error());
    const Verdict verdict = judge(before->snapshot, after->snapshot);
    if (json) {
        std::cout << json_text(verdict_json(verdict)) << std::endl;
        return kExitGood;
    }
    for (const std::string& sentence : sentences(verdict))
        std::cout << sentence << "\n";
    return kExitGood;
}

}  // namespace sl::cli
