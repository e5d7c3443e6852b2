// Handles, errors and documents of the C API for speedyctl; see handles.h.
#include "bindings/cli/handles.h"

#include <iostream>

namespace sl::cli {

std::string last_error_text() {
    sl_error error{};
    error.struct_size = sizeof error;
    sl_last_error(&error);
    std::string text = error.message;
    if (text.empty()) text = sl_status_name(error.code);
    if (error.sample_kind != 0) {
        text += " [" + std::string(sl_sample_kind_name(error.sample_kind)) + ", sample " +
                std::to_string(error.sample_id);
        if (error.path[0] != '\0') text += ", " + std::string(error.path);
        if (error.offset >= 0) text += ", byte " + std::to_string(error.offset);
        text += "]";
    }
    return text;
}

std::unexpected<Failure> failed(sl_status status) {
    bool usage = status == SL_E_SPEC || status == SL_E_INVALID_ARGUMENT;
    return std::unexpected(Failure{usage ? kExitUsage : kExitFailed, last_error_text()});
}

Outcome<Client> connect(const std::string& socket, std::uint32_t flags, std::int64_t reconnect_ms) {
    sl_connect_options options{};
    options.reconnect_ms = reconnect_ms;
    options.struct_size = sizeof options;
    options.flags = flags;
    options.socket = socket.empty() ? nullptr : socket.c_str();
    options.program = "speedyctl";
    sl_client* client = nullptr;
    if (sl_status status = sl_connect(&options, &client); status != SL_OK) return failed(status);
    return Client(client);
}

Outcome<Client> connect_to_running(const std::string& socket) {
    sl_connect_options options{};
    options.struct_size = sizeof options;
    options.flags = SL_CONNECT_NO_SPAWN;
    options.socket = socket.empty() ? nullptr : socket.c_str();
    options.program = "speedyctl";
    sl_client* client = nullptr;
    sl_status status = sl_connect(&options, &client);
    if (status == SL_E_NO_DAEMON) return std::unexpected(Failure{kExitFailed, "no daemon is running"});
    if (status != SL_OK) return failed(status);
    return Client(client);
}

int complain(const Failure& failure) {
    std::cerr << "speedyctl: " << failure.message << "\n";
    return failure.exit_status;
}

Outcome<Stream> open(sl_client* client, const std::string& spec) {
    sl_stream* stream = nullptr;
    sl_status status = sl_open(client, spec.data(), spec.size(), nullptr, &stream);
    if (status != SL_OK) return failed(status);
    return Stream(stream);
}

namespace {
std::string take_text(sl_status status, char* text) {
    if (status != SL_OK) return {};
    std::string taken = text;
    sl_free(text);
    return taken;
}
}  // namespace

std::string status_text(sl_client* client) {
    char* text = nullptr;
    sl_status status = sl_client_status(client, &text);
    return take_text(status, text);
}

std::string report_text(sl_stream* stream) {
    char* text = nullptr;
    sl_status status = sl_stream_report(stream, &text);
    return take_text(status, text);
}

}  // namespace sl::cli
