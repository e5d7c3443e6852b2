// `speedyctl top`: the status as a picture that refreshes. Plain ANSI: home, lines each cleared to their end,
// the rest of the screen cleared. The terminal is set back however the program ends.
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <optional>

#include "bindings/cli/look.h"
#include "bindings/cli/spec.h"
#include "bindings/cli/verdict.h"
#include "bindings/cli/watch.h"

namespace sl::cli {

namespace {

volatile sig_atomic_t interrupted = 0;

constexpr std::size_t kSlowShown = 3;

// Keys arrive one by one and unseen, while this lives. Signals still do what they do.
class Keys {
  public:
    Keys() {
        if (::isatty(STDIN_FILENO) == 0 || ::tcgetattr(STDIN_FILENO, &before_) != 0) return;
        termios raw = before_;
        raw.c_lflag &= static_cast<tcflag_t>(~(ICANON | ECHO));
        changed_ = ::tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
    }
    ~Keys() {
        if (changed_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
    }
    Keys(const Keys&) = delete;
    Keys& operator=(const Keys&) = delete;

    // Waits for so long; true once q was pressed or Ctrl-C came.
    [[nodiscard]] bool quit_within(double seconds) const {
        pollfd keyboard{STDIN_FILENO, POLLIN, 0};
        const int ms = static_cast<int>(seconds * 1000);
        if (::poll(&keyboard, changed_ ? 1 : 0, ms) <= 0) return interrupted != 0;
        char key = 0;
        return ::read(STDIN_FILENO, &key, 1) <= 0 || key == 'q';
    }

  private:
    termios before_{};
    bool changed_ = false;
};

template <class... Values>
std::string line(const char* format, Values... values) {
    char text[512];
    std::snprintf(text, sizeof text, format, values...);
    return text;
}

double mib(const nlohmann::json& bytes) {
    return bytes.get<double>() / (1 << 20);
}

void add_stream(std::vector<std::string>& lines, const nlohmann::json& stream, const Verdict& verdict) {
    StreamLoad load;
    for (const StreamLoad& one : verdict.streams) {
        if (one.id == stream["id"]) load = one;
    }
    const auto& prediction = stream["prediction"];
    lines.push_back(line("%6llu %10.0f %6.0f%% %6.0f%% %6u/%u/%u %9llu %7.1f%% %7llu  %s",
                         stream["id"].get<unsigned long long>(), load.samples_per_s, load.wait_share * 100,
                         load.full_share * 100, stream["unread"].get<unsigned>(),
                         stream["leased"].get<unsigned>(), stream["slots"].get<unsigned>(),
                         stream["batches"].get<unsigned long long>(), prediction["mape"].get<double>() * 100,
                         stream["failed"].get<unsigned long long>(),
                         stream["dataset"].get<std::string>().c_str()));
    std::size_t slow = 0;
    std::string lanes = "       ";
    for (const auto& [name, lane] : stream["lanes"].items()) {
        lanes += line("  %s %llu x %.2f ms", name.c_str(), lane["samples"].get<unsigned long long>(),
                      lane["mean_ms"].get<double>());
    }
    lines.push_back(lanes);
    for (const auto& sample : stream["slowest"]) {
        lines.push_back(line("         slowest  %.1f ms (predicted %.1f)  %s", sample["ms"].get<double>(),
                             sample["predicted_ms"].get<double>(),
                             sample["path"].get<std::string>().c_str()));
        if (++slow == kSlowShown) break;
    }
}

std::vector<std::string> picture(const Look& look, const Verdict& verdict) {
    const nlohmann::json& status = look.status;
    const auto& memory = status["memory"];
    std::vector<std::string> lines;
    lines.push_back(line(
        "speedyloaderd %s  pid %d  up %.0f s  %s  memory %.0f of %.0f MiB  worker deaths %llu",
        status["version"].get<std::string>().c_str(), status["pid"].get<int>(),
        status["uptime_s"].get<double>(), status["backend"].get<std::string>().c_str(),
        mib(memory["reserved"]), mib(memory["budget"]), status["worker_deaths"].get<unsigned long long>()));
    std::string stages = "busy ";
    for (const StageLoad& stage : verdict.stages)
        stages += line("  %s %.0f%%", name_of(stage.stage), stage.utilisation * 100);
    lines.push_back(stages + line("  (%.0f workers, %.1f reads under way, %.1f cores idle)",
                                  look.snapshot.decode.servers, verdict.reads_under_way, verdict.idle_cores));
    for (const auto& session : status["sessions"]) {
        lines.push_back(line("client %d  %s  streams %s", session["pid"].get<int>(),
                             session["program"].get<std::string>().c_str(),
                             session["streams"].dump().c_str()));
    }
    const auto& others = status["others"];
    if (others["sessions"].get<unsigned>() > 0) {
        lines.push_back(line("other users: %u clients  %u streams", others["sessions"].get<unsigned>(),
                             others["streams"].get<unsigned>()));
    }
    for (const auto& scan : status["scans"]) {
        lines.push_back(
            line("scan %s  %llu directories  %llu images", scan["path"].get<std::string>().c_str(),
                 scan["directories"].get<unsigned long long>(), scan["images"].get<unsigned long long>()));
    }
    lines.emplace_back();
    lines.emplace_back(
        "stream  samples/s   waits    full unread/leased/slots batches  error  failed  dataset");
    for (const auto& stream : status["streams"])
        add_stream(lines, stream, verdict);
    lines.emplace_back();
    for (const std::string& sentence : sentences(verdict))
        lines.push_back(sentence);
    return lines;
}

// What does not fit is cut, so that a line is a line and the screen does not scroll.
void show(const std::vector<std::string>& lines) {
    winsize size{};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) size = {24, 80, 0, 0};
    std::string out = "\x1b[H";
    const std::size_t rows = std::min<std::size_t>(lines.size(), size.ws_row - 1U);
    for (std::size_t i = 0; i < rows; ++i)
        out += lines[i].substr(0, size.ws_col) + "\x1b[K\n";
    std::cout << out << "\x1b[J" << std::flush;
}

}  // namespace

int top(const TopOptions& options) {
    Outcome<Client> client = connect_to_running(options.socket);
    if (!client) return complain(client.error());
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted = 1; };
    ::sigaction(SIGINT, &action, nullptr);
    ::sigaction(SIGTERM, &action, nullptr);
    const bool once = options.once || options.json || ::isatty(STDOUT_FILENO) == 0;
    Outcome<Look> before = look_at(client->get());
    if (!before) return complain(before.error());
    Keys keys;
    if (!once) std::cout << "\x1b[2J";
    while (!keys.quit_within(options.interval)) {
        Outcome<Look> now = look_at(client->get());
        if (!now) return complain(now.error());
        const Verdict verdict = judge(before->snapshot, now->snapshot);
        if (options.json) {
            std::cout << json_text({{"status", now->status}, {"verdict", verdict_json(verdict)}})
                      << std::endl;
        } else if (once) {
            for (const std::string& text : picture(*now, verdict))
                std::cout << text << "\n";
        } else {
            show(picture(*now, verdict));
        }
        if (once) return kExitGood;
        before = std::move(now);
    }
    return once ? kExitInterrupted : kExitGood;
}

}  // namespace sl::cli
