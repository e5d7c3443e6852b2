// `speedyctl scan`; see scan.h.
#include "bindings/cli/scan.h"

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "bindings/cli/handles.h"
#include "bindings/cli/print.h"
#include "bindings/cli/spec.h"

namespace sl::cli {

namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr auto kEvery = std::chrono::milliseconds(100);
constexpr char kClearLine[] = "\r\x1b[K";

// Shows a line on stderr from its construction until its end, from a thread and a connection of its own.
class ScanProgressLine {
  public:
    ScanProgressLine(std::string folder, const std::string& socket)
        : folder_(std::move(folder)), socket_(socket) {
        if (::isatty(STDERR_FILENO) == 1) thread_ = std::thread([this] { show(); });
    }
    ~ScanProgressLine() {
        {
            std::lock_guard lock(mutex_);
            done_ = true;
        }
        changed_.notify_all();
        if (thread_.joinable()) thread_.join();
    }
    ScanProgressLine(const ScanProgressLine&) = delete;
    ScanProgressLine& operator=(const ScanProgressLine&) = delete;

  private:
    void show() {
        Outcome<Client> client = connect(socket_, SL_CONNECT_NO_SPAWN);
        if (!client) return;  // then there is no line
        bool drawn = false;
        for (std::unique_lock lock(mutex_); !changed_.wait_for(lock, kEvery, [this] { return done_; });) {
            lock.unlock();
            drawn = draw(client->get()) || drawn;
            lock.lock();
        }
        if (drawn) std::fputs(kClearLine, stderr);
    }

    bool draw(sl_client* client) const {
        Json status = Json::parse(status_text(client), nullptr, false);
        if (!status.is_object()) return false;
        for (const Json& scan : status.value("scans", Json::array())) {
            if (scan.value("path", "") != folder_) continue;
            std::fprintf(stderr, "%sscanning: %llu images in %llu directories  %.0f s", kClearLine,
                         scan.value("images", 0ULL), scan.value("directories", 0ULL),
                         std::chrono::duration<double>(Clock::now() - start_).count());
            std::fflush(stderr);
            return true;
        }
        return false;
    }

    const std::string folder_;
    const std::string socket_;
    const Clock::time_point start_ = Clock::now();
    std::mutex mutex_;
    std::condition_variable changed_;
    bool done_ = false;
    std::thread thread_;
};

// "hidden  3 files, as .made": only reasons that left something out.
void print_skipped(const Json& reasons) {
    for (const auto& [reason, skipped] : reasons.items()) {
        if (!skipped.is_object() || skipped.value("count", 0) == 0) continue;
        std::string text = skipped["count"].dump();
        auto examples = skipped.find("examples");
        if (examples != skipped.end() && examples->is_array() && !examples->empty()) {
            text += ", as " + scalar(examples->front());
        }
        print_line("skipped: " + reason, text);
    }
}

// "used: nothing has changed since the earlier scan", "written: train/a has changed", "not kept: ...".
std::string manifest_sentence(const Json& manifest) {
    const std::string note = manifest.value("note", "");
    const std::string because = note.empty() ? "" : ": " + note;
    if (manifest.value("used", false)) return "used, nothing has changed" + because;
    return (manifest.value("kept", false) ? "written" : "not kept") + because;
}

Outcome<Stream> open_scanning(const std::string& folder, const std::string& socket, Client& client) {
    Outcome<Client> connected = connect(socket, 0);
    if (!connected) return std::unexpected(connected.error());
    client = std::move(*connected);
    ScanProgressLine line(folder, socket);
    return open(client.get(), json_text(quickstart_spec(folder, 1)));
}

}  // namespace

int scan(const std::string& folder, const std::string& socket, bool json) {
    std::error_code error;
    if (!std::filesystem::is_directory(folder, error)) return complain({kExitUsage, "no folder " + folder});
    const std::string absolute = std::filesystem::absolute(folder, error).lexically_normal().string();
    const Clock::time_point start = Clock::now();
    Client client;
    Outcome<Stream> stream = open_scanning(absolute, socket, client);
    if (!stream) return complain(stream.error());
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    Json report = Json::parse(report_text(stream->get()), nullptr, false);
    if (!report.is_object()) return complain({kExitFailed, "the daemon gave no report"});
    const Json skipped = report.value("skipped_files", Json::object());
    const Json manifest = report.value("manifest", Json::object());
    const Json samples = report.value("samples", Json(0));
    const std::size_t classes = report.value("classes", Json::array()).size();
    if (json) {
        Json found = {{"folder", absolute}, {"samples", samples},   {"classes", classes},
                      {"seconds", seconds}, {"manifest", manifest}, {"skipped_files", skipped}};
        std::cout << json_text(found) << std::endl;
        return kExitGood;
    }
    print_line("folder", absolute);
    print_line("samples", samples.dump());
    print_line("classes", std::to_string(classes));
    print_line("directories", skipped.value("directories", Json(0)).dump());
    print_line("seconds", Json(std::round(seconds * 1000) / 1000).dump());
    print_line("manifest", manifest_sentence(manifest));
    if (!manifest.value("path", "").empty()) print_line("", manifest.value("path", ""));
    print_skipped(skipped);
    return kExitGood;
}

}  // namespace sl::cli
