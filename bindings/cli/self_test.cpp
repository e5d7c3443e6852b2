// See self_test.h.
#include "bindings/cli/self_test.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "bindings/cli/handles.h"
#include "bindings/cli/self_test_pictures.h"

namespace fs = std::filesystem;

namespace sl::cli {

namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kBatch = 5;  // the last batch is not full
constexpr std::int64_t kPatienceMs = 20'000;
constexpr int kLeavingMs = 5'000;
constexpr std::chrono::seconds kWorkersTake{10};  // to load their codecs

std::string milliseconds_since(Clock::time_point start) {
    const auto time = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
    return std::to_string(time.count()) + " ms";
}

// The lines, and whether all of them were good.
class Findings {
  public:
    void add(const std::string& what, const Outcome<std::string>& found) {
        std::string name = what;
        name.resize(std::max<std::size_t>(name.size() + 1, 16), ' ');
        std::cout << (found ? "ok    " : "FAIL  ") << name << (found ? *found : found.error().message)
                  << std::endl;
        good_ = good_ && found;
    }
    [[nodiscard]] bool good() const { return good_; }

  private:
    bool good_ = true;
};

std::unexpected<Failure> because(std::string message) {
    return std::unexpected(Failure{kExitFailed, std::move(message)});
}

// A temporary folder that goes with its owner.
class Folder {
  public:
    Folder() {
        std::error_code error;
        std::string pattern = (fs::temp_directory_path(error) / "speedyloader-self-test-XXXXXX").string();
        if (!error && ::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
    }
    ~Folder() {
        std::error_code error;
        if (!path_.empty()) fs::remove_all(path_, error);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    [[nodiscard]] const fs::path& path() const { return path_; }

  private:
    fs::path path_;
};

Outcome<std::string> write_pictures(const fs::path& folder, const std::vector<TestPicture>& pictures) {
    if (folder.empty())
        return because(std::string("cannot make a temporary folder: ") + std::strerror(errno));
    std::error_code error;
    fs::create_directory(folder / "pictures", error);
    for (const TestPicture& picture : pictures) {
        std::ofstream file(folder / "pictures" / picture.name, std::ios::binary);
        if (!(file << picture.bytes).flush()) return because("cannot write in " + folder.string());
    }
    return std::to_string(pictures.size()) + " written to " + folder.string();
}

// The daemon is this test's alone: a name, a cache and a budget of its own.
void prepare_environment(const std::string& daemon, const fs::path& folder) {
    if (!daemon.empty()) ::setenv("SPEEDYLOADER_DAEMON", daemon.c_str(), 1);
    ::setenv("SPEEDYLOADER_DAEMON_ARGS", "--workers 2 --memory 256MiB --log-level warn", 1);
    ::setenv("SPEEDYLOADER_PRIVATE_NAME", ("self-test-" + std::to_string(::getpid())).c_str(), 1);
    ::setenv("SPEEDYLOADER_LOG", (folder / "log").c_str(), 0);
    ::setenv("XDG_CACHE_HOME", (folder / "cache").c_str(), 1);
}

std::string spec_for(const fs::path& folder) {
    const Json pipeline = {{{"op", "decode"}, {"channels", 3}},
                           {{"op", "resize"}, {"size", {kTestSide, kTestSide}}}};
    return Json{{"dataset", {{"kind", "image_folder"}, {"path", (folder / "pictures").string()}}},
                {"pipeline", pipeline},
                {"output", {{"dtype", "uint8"}, {"layout", "NHWC"}}},
                {"batch", {{"size", kBatch}, {"last", "keep"}}},
                {"errors", {{"policy", "fail"}}}}
        .dump();
}

// Marks each id of the batch as come; empty, or what is wrong.
std::string compare(const sl_batch* batch, const std::vector<TestPicture>& pictures,
                    std::vector<bool>& come) {
    sl_batch_info info{};
    info.struct_size = sizeof info;
    sl_tensor image{};
    image.struct_size = sizeof image;
    if (sl_batch_get_info(batch, &info) != SL_OK || sl_batch_tensor(batch, "image", &image) != SL_OK)
        return last_error_text();
    const std::size_t bytes = std::size_t{kTestSide} * kTestSide * 3;
    if (image.bytes < info.count * bytes) return "a batch is smaller than its samples";
    for (std::uint32_t row = 0; row < info.count; ++row) {
        sl_sample_info sample{};
        sample.struct_size = sizeof sample;
        if (sl_batch_sample(batch, row, &sample) != SL_OK) return last_error_text();
        if (sample.sample_id >= pictures.size() || come[sample.sample_id])
            return "sample " + std::to_string(sample.sample_id) + " came twice, or does not exist";
        come[sample.sample_id] = true;
        const TestPicture& picture = pictures[sample.sample_id];
        const auto* got = static_cast<const std::uint8_t*>(image.data) + row * bytes;
        if (!std::equal(picture.pixels.begin(), picture.pixels.end(), got))
            return "the pixels of " + picture.name + " are not what was written";
    }
    return {};
}

Outcome<std::string> stream_pictures(sl_client* client, const fs::path& folder,
                                     const std::vector<TestPicture>& pictures) {
    Outcome<Stream> stream = open(client, spec_for(folder));
    if (!stream) return std::unexpected(stream.error());
    std::vector<bool> come(pictures.size());
    std::uint64_t batches = 0;
    while (true) {
        sl_batch* taken = nullptr;
        const sl_status status = sl_next(stream->get(), kPatienceMs, &taken);
        if (status == SL_END_OF_EPOCH) continue;
        if (status == SL_END) break;
        if (status == SL_TIMEOUT)
            return because("no batch within " + std::to_string(kPatienceMs / 1000) + " s");
        if (status != SL_OK) return because(last_error_text());
        const Batch batch(taken);
        ++batches;
        if (std::string wrong = compare(taken, pictures, come); !wrong.empty()) return because(wrong);
    }
    const auto missing = std::ranges::count(come, false);
    if (missing != 0) return because(std::to_string(missing) + " samples never came");
    return std::to_string(pictures.size()) + " samples (PNG, BMP, JPEG) in " + std::to_string(batches) +
           " batches, each once, every byte right";
}

// What the kernel says of a process: a line of /proc/PID/status, as a number; -1 without it.
long status_number(long pid, const std::string& name) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/status");
    std::string word;
    long value = -1;
    while (file >> word) {
        if (word == name + ":" && file >> value) return value;
    }
    return -1;
}

std::size_t confined_workers(const Json& workers) {
    constexpr long kFilter = 2;  // Seccomp: of a process that has a filter
    return static_cast<std::size_t>(std::ranges::count_if(workers, [](const Json& worker) {
        const long pid = worker.value("pid", 0L);
        return status_number(pid, "Seccomp") == kFilter && status_number(pid, "NoNewPrivs") == 1;
    }));
}

Outcome<std::string> look_at_workers(const Json& status) {
    const Json workers = status.value("workers", Json::array());
    if (workers.empty()) return because("the daemon has none");
    // A worker loads its codecs first: so few pictures may all have been another one's.
    const Clock::time_point start = Clock::now();
    std::size_t confined = confined_workers(workers);
    while (confined < workers.size() && status.value("sandbox", false) &&
           Clock::now() - start < kWorkersTake) {
        ::poll(nullptr, 0, 5);
        confined = confined_workers(workers);
    }
    const std::string count = std::to_string(workers.size());
    if (confined == workers.size()) return count + ", each under its system call filter";
    if (!status.value("sandbox", false)) return count + "; their sandbox is off";
    return because("of " + count + " only " + std::to_string(confined) + " are under a system call filter");
}

Outcome<std::string> end_daemon(long pid) {
    const Clock::time_point start = Clock::now();
    const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
    if (pidfd < 0) return because("the daemon has gone by itself");
    ::kill(static_cast<pid_t>(pid), SIGTERM);
    pollfd wait{pidfd, POLLIN, 0};
    const bool gone = ::poll(&wait, 1, kLeavingMs) == 1;
    ::close(pidfd);
    if (!gone) return because("the daemon is still there " + milliseconds_since(start) + " after SIGTERM");
    return "the daemon has left " + milliseconds_since(start) + " after it was asked";
}

void talk(Findings& findings, const fs::path& folder, const std::vector<TestPicture>& pictures) {
    const Clock::time_point start = Clock::now();
    Outcome<Client> client = connect("", SL_CONNECT_PRIVATE, SL_NO_RECONNECT);
    if (!client) return findings.add("daemon", std::unexpected(client.error()));
    const Json status = Json::parse(status_text(client->get()), nullptr, false);
    if (!status.is_object()) return findings.add("daemon", because("it does not say how it is"));
    findings.add("daemon", "speedyloaderd " + status.value("version", "") + " answers after " +
                               milliseconds_since(start));
    const std::string note = status.value("reader_note", "");
    findings.add("reading", status.value("reader", "") + (note.empty() ? "" : " (" + note + ")"));
    findings.add("samples", stream_pictures(client->get(), folder, pictures));
    // By now each worker has been ready for work, and confined before that.
    findings.add("workers", look_at_workers(Json::parse(status_text(client->get()), nullptr, false)));
    client->reset();
    findings.add("leaving", end_daemon(status.value("pid", 0L)));
}

// It goes with the folder, so what the daemon said is shown now.
void show_log(const fs::path& folder) {
    std::ifstream file(folder / "log");
    for (std::string line; std::getline(file, line);)
        std::fprintf(stderr, "      %s\n", line.c_str());
}

}  // namespace

int self_test(const std::string& daemon) {
    Findings findings;
    const Folder folder;
    const std::vector<TestPicture> pictures = test_pictures();
    const Outcome<std::string> written = write_pictures(folder.path(), pictures);
    findings.add("pictures", written);
    if (written) {
        prepare_environment(daemon, folder.path());
        talk(findings, folder.path(), pictures);
    }
    if (!findings.good()) show_log(folder.path());
    return findings.good() ? kExitGood : kExitFailed;
}

}  // namespace sl::cli
