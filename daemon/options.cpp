#include "daemon/options.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <system_error>

#include "daemon/service/listening.h"

namespace sl {

namespace {

// Beside this program in a build tree and in a wheel; where it was installed, among the programs that no
// person starts.
std::string find_worker() {
    constexpr char kName[] = "speedyloader-worker";
    const std::filesystem::path folder = program_folder();
    const auto installed = folder / "../libexec/speedyloader" / kName;
    std::error_code error;
    if (std::filesystem::exists(folder / kName, error) || !std::filesystem::exists(installed, error))
        return (folder / kName).string();
    return installed.lexically_normal().string();
}

// The worker knows the codecs; the daemon links none.
std::string describe_version() {
    std::string text = "speedyloaderd " SL_VERSION "\nreader back ends: io_uring, threads\ncodecs: ";
    std::string command = "'" + find_worker() + "' --codecs";
    std::unique_ptr<FILE, int (*)(FILE*)> output(::popen(command.c_str(), "r"), ::pclose);
    char line[512];
    if (!output || std::fgets(line, sizeof line, output.get()) == nullptr) return text + "unknown, no worker";
    text += line;
    text.pop_back();  // the line's end: CLI11 writes its own
    return text;
}

// "--memory 4GiB" and the like: a mistake is CLI11's error, with its message.
template <class Parse, class Target>
std::function<std::string(const std::string&)> checked(Parse parse, Target& target) {
    return [parse, &target](const std::string& text) -> std::string {
        auto value = parse(text);
        if (!value) return value.error().message;
        target = *value;
        return {};
    };
}

CLI::Range in_range(NumberRange allowed) {
    return {allowed.least, allowed.most};
}

}  // namespace

std::string program_folder() {
    std::error_code error;
    const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
    return error ? "." : self.parent_path().string();
}

Options parse_options(int argc, char** argv) {
    Options options;
    Config cli;  // what the command line sets goes over the file's
    std::string memory;
    std::string input;
    std::string backend;
    std::string read_timeout;
    CLI::App app("speedyloaderd: loads training data for every job of this host");
    app.set_version_flag("--version", describe_version);
    auto* socket = app.add_option("--socket", cli.socket, "path to listen at");
    auto* workers = app.add_option("--workers", cli.workers, "worker processes (default: usable cores)")
                        ->check(in_range(kWorkersAllowed));
    auto* memory_option = app.add_option("--memory", memory, "budget of all shared memory, as 4GiB")
                              ->check(checked(parse_bytes, cli.memory));
    auto* input_option = app.add_option("--input", input, "of it for file bytes, as 256MiB")
                             ->check(checked(parse_bytes, cli.input));
    auto* io =
        app.add_option("--io", backend, "auto, uring or threads")->check(checked(parse_backend, cli.io));
    auto* entries =
        app.add_option("--io-entries", cli.io_entries, "io_uring entries")->check(in_range(kIoEntriesAllowed));
    auto* threads = app.add_option("--io-threads", cli.io_threads, "threads for each user's files on each mount that threads read")
                        ->check(in_range(kIoThreadsAllowed));
    auto* timeout =
        app.add_option("--read-timeout", read_timeout, "a sample that cannot be read within it fails, as 30s")
            ->check(checked(parse_time, cli.read_timeout));
    bool no_predict = false;
    app.add_flag("--no-predict", no_predict, "take every sample for an average one, for comparisons");
    bool no_sandbox = false;
    app.add_flag("--no-sandbox", no_sandbox, "let workers decode unconfined (docs/sandbox.md)");
    app.add_option("--config", options.config_file, "TOML configuration file");
    std::string check_file;
    auto* check = app.add_option("--check-config", check_file, "check a configuration file and leave");
    app.add_flag("--self-test", options.self_test, "try what this machine allows, one line each, and leave");
    app.add_flag("--private", options.is_private, "serve this user only; leave after the last client");
    app.add_option("--listen-fd", options.listen_fd, "descriptor of a listening socket");
    app.add_flag("--detach", options.detach, "go on in the background");
    app.add_option("--worker-program", options.worker_program,
                   "speedyloader-worker (default: the one installed with this)");
    auto* log_level =
        app.add_option("--log-level", options.log_level, "trace, debug, info, warn, error or off");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        int status = app.exit(error);
        options.exit_status = status == 0 ? 0 : 2;
        return options;
    }
    if (*check) {
        options.check_config = true;
        options.config_file = check_file;
    }
    if (!options.config_file.empty()) {
        if (auto loaded = load_config(options.config_file, options.config); !loaded) {
            std::fprintf(stderr, "speedyloaderd: %s\n", loaded.error().message.c_str());
            options.exit_status = options.check_config ? 1 : 2;
            return options;
        }
    }
    options.in_file = options.config;
    options.log_level_is_given = static_cast<bool>(*log_level);
    if (!*log_level) options.log_level = options.config.log_level;
    if (*socket) options.config.socket = cli.socket;
    if (*workers) options.config.workers = cli.workers;
    if (*memory_option) options.config.memory = cli.memory;
    if (*input_option) options.config.input = cli.input;
    if (*io) options.config.io = cli.io;
    if (*entries) options.config.io_entries = cli.io_entries;
    if (*timeout) options.config.read_timeout = cli.read_timeout;
    if (no_predict) options.config.predict = false;
    if (no_sandbox) options.config.sandbox = false;
    if (*threads) options.config.io_threads = cli.io_threads;
    if (options.worker_program.empty()) options.worker_program = find_worker();
    if (!options.check_config && !options.self_test && options.config.socket.empty() &&
        options.listen_fd < 0 && !is_socket_activated()) {
        std::fprintf(stderr, "speedyloaderd: give --socket PATH (or --listen-fd N)\n");
        options.exit_status = 2;
    }
    return options;
}

}  // namespace sl
