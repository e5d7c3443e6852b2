// speedyloaderd: the daemon's story, in the order it happens.
#include <fcntl.h>
#include <signal.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "daemon/broker/server.h"
#include "daemon/options.h"
#include "daemon/reload.h"
#include "daemon/service/listening.h"
#include "daemon/service/manager.h"
#include "daemon/service/self_test.h"
#include "io/manifest_file.h"

namespace sl {
namespace {

// Goes on as a child of init, in a session of its own; the caller's child ends at once.
bool detach() {
    pid_t pid = ::fork();
    if (pid < 0) return false;
    if (pid > 0) ::_exit(0);
    ::setsid();
    return ::chdir("/") == 0;
}

void start_log(const std::string& level) {
    auto logger = spdlog::stderr_color_mt("speedyloaderd");
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %n %l: %v");
    logger->set_level(spdlog::level::from_str(level));
    spdlog::set_default_logger(std::move(logger));
}

void raise_descriptor_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
}

std::uint64_t random_boot_id() {
    std::uint64_t id = 0;
    [[maybe_unused]] ssize_t got = ::getrandom(&id, sizeof id, 0);
    return id;
}

// SIGTERM and SIGINT end the loop; they arrive as a descriptor so that no handler runs in the middle of
// things.
Result<UniqueFd> catch_signals(EventLoop& loop) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    ::signal(SIGPIPE, SIG_IGN);
    // A parent may have left SIGCHLD ignored, and then the kernel keeps no exit status of dead workers.
    ::signal(SIGCHLD, SIG_DFL);
    UniqueFd fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd) return std::unexpected(os_error(Status::kInternal, "signalfd", errno));
    auto added = loop.add(fd.get(), [&loop](std::uint32_t) {
        spdlog::info("asked to stop");
        loop.stop();
    });
    if (!added) return std::unexpected(added.error());
    return fd;
}

Result<void> run(const Options& options) {
    const Config& config = options.config;
    auto listening = start_listening(options.listen_fd, config.socket);
    if (!listening) return std::unexpected(listening.error());
    auto loop = EventLoop::create();
    if (!loop) return std::unexpected(loop.error());
    auto signals = catch_signals(**loop);
    if (!signals) return std::unexpected(signals.error());
    if (!options.config_file.empty()) block_hangups();  // before there are threads

    ConductorOptions conductor_options;
    conductor_options.worker_program = {options.worker_program, config.sandbox};
    conductor_options.workers = config.workers;
    conductor_options.memory_bytes = config.memory;
    conductor_options.input_bytes = config.input;
    conductor_options.reader = {
        .backend = config.io, .entries = config.io_entries, .threads = config.io_threads};
    conductor_options.read_timeout = config.read_timeout;
    conductor_options.predict = config.predict;
    conductor_options.cores = usable_cores();
    conductor_options.quarantine_file = quarantine_path();
    conductor_options.cost_folder = user_cost_folder();
    conductor_options.boot_id = random_boot_id();
    auto conductor = Conductor::create(**loop, conductor_options);
    if (!conductor) return std::unexpected(conductor.error());
    if (!(*conductor)->reader_note().empty()) spdlog::warn("{}", (*conductor)->reader_note());
    spdlog::info("reading with {}", (*conductor)->reader().description());

    auto server = Server::create(**loop, **conductor, std::move(listening->socket),
                                 {.socket_name = listening->name,
                                  .worker_program = {options.worker_program, config.sandbox},
                                  .manifest_folder = user_manifest_folder(),
                                  .is_private = options.is_private,
                                  .roots = config.roots,
                                  .limits = config.limits});
    if (!server) return std::unexpected(server.error());
    ServiceManager manager(**loop, options.is_private, [&server, &conductor] {
        return ServiceManager::Load{(*server)->clients(), (*conductor)->streams().size()};
    });
    auto hangups = reload_on_hangup(**loop, options, **server, manager);
    if (!hangups) return std::unexpected(hangups.error());
    spdlog::info("ready");
    manager.ready();
    (*loop)->run();

    manager.stopping();
    // While the listener still answers: a daemon that starts now is refused, or binds the name for itself. A
    // path of somebody else's stays, and who connects meanwhile waits there for the next daemon.
    if (listening->owns_path) ::unlink(listening->name.c_str());
    bool scans_ended = (*server)->shut_down();
    bool reads_ended = (*conductor)->shut_down();
    if (!scans_ended || !reads_ended) {
        // Threads that a dead mount holds may still use what the destructors would take away.
        spdlog::info("stopped");
        spdlog::shutdown();
        ::_exit(0);
    }
    server->reset();
    conductor->reset();
    return {};
}

}  // namespace
}  // namespace sl

int main(int argc, char** argv) {
    sl::Options options = sl::parse_options(argc, argv);
    if (options.exit_status) return *options.exit_status;
    if (options.self_test) return sl::self_test(sl::program_folder());
    sl::complete_config(options.config);
    if (options.check_config) {
        std::printf("%s\n", sl::describe_config(options.config).c_str());
        return 0;
    }
    if (options.detach && !sl::detach()) return 1;
    sl::start_log(options.log_level);
    spdlog::info("speedyloaderd " SL_VERSION " {}", sl::describe_config(options.config));
    sl::raise_descriptor_limit();
    if (auto done = sl::run(options); !done) {
        spdlog::error("{}", done.error().message);
        return 1;
    }
    spdlog::info("stopped");
    return 0;
}
