#include "daemon/reload.h"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "daemon/config.h"

namespace sl {

namespace {

sigset_t hangup() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGHUP);
    return signals;
}

// The keys that a running daemon cannot change and that are others now: "daemon.workers, ...".
std::string fixed_changes(const Config& then, const Config& now) {
    std::string names;
    auto compare = [&names](const char* name, const auto& before, const auto& after) {
        if (before != after) names += (names.empty() ? "daemon." : ", daemon.") + std::string(name);
    };
    compare("socket", then.socket, now.socket);
    compare("workers", then.workers, now.workers);
    compare("memory", then.memory, now.memory);
    compare("input", then.input, now.input);
    compare("io", then.io, now.io);
    compare("io_entries", then.io_entries, now.io_entries);
    compare("io_threads", then.io_threads, now.io_threads);
    compare("read_timeout", then.read_timeout, now.read_timeout);
    compare("predict", then.predict, now.predict);
    compare("sandbox", then.sandbox, now.sandbox);
    return names;
}

void reload(const Options& options, Server& server) {
    Config fresh;
    Result<void> taken = load_config(options.config_file, fresh);
    if (taken) {
        if (!fresh.limits.bytes) fresh.limits.bytes = options.config.memory / 2;
        taken = server.renew(fresh.roots, fresh.limits);
    }
    if (!taken) {
        spdlog::error("not reloaded, all stays as it was: {}", taken.error().message);
        return;
    }
    if (!options.log_level_is_given) spdlog::set_level(spdlog::level::from_str(fresh.log_level));
    Config now = options.config;
    now.roots = fresh.roots;
    now.limits = fresh.limits;
    now.log_level = options.log_level_is_given ? options.log_level : fresh.log_level;
    spdlog::info("reloaded {}: {}", options.config_file, describe_config(now));
    const std::string fixed = fixed_changes(options.in_file, fresh);
    if (!fixed.empty()) spdlog::warn("other values need a restart: {}", fixed);
}

}  // namespace

void block_hangups() {
    const sigset_t signals = hangup();
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

Result<UniqueFd> reload_on_hangup(EventLoop& loop, const Options& options, Server& server,
                                  ServiceManager& manager) {
    const sigset_t signals = hangup();
    UniqueFd fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd) return std::unexpected(os_error(Status::kInternal, "signalfd", errno));
    auto added = loop.add(fd.get(), [raw = fd.get(), &options, &server, &manager](std::uint32_t) {
        signalfd_siginfo ignored{};
        if (::read(raw, &ignored, sizeof ignored) != sizeof ignored) return;
        manager.reloading();
        reload(options, server);
        manager.ready();
    });
    if (!added) return std::unexpected(added.error());
    return fd;
}

}  // namespace sl
