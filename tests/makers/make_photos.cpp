// sl_make_photos OUT [--count N] [--classes N] [--seed N] [--set A|B|C|D] [--source FOLDER]...
//
// Makes a folder of photographs whose sizes, qualities and sampling are those of ImageNet: random regions of
// the big JPEGs in Debian's wallpaper packages (mate-backgrounds, ukui-wallpapers,
// plasma-workspace-wallpapers), shrunk by area averaging. Longest side lognormal around 480 pixels (sigma
// 0.25), 3 percent of them four times larger; aspect 1.2 to 1.5 (70 percent) or 0.66 to 0.85; quality 88 to
// 97; 80 percent 4:2:0, the rest 4:4:4; about 65 kB in the mean. With --set they cost what tail.h says, and
// the file of a heavy one is called heavy_NUMBER.jpg.
//
// Called by quickstart.sh, by bench/run and by the tests. The same arguments and the same wallpapers give the
// same bytes, with any number of threads: every photograph is drawn from (seed, its number) alone. The last
// thing written is OUT/.made; a second call with the same arguments finds it and returns at once. A folder
// that holds another set is refused, never emptied. Failure: one line on stderr, exit 1 (2 for wrong use).
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "photo.h"
#include "rgb_jpeg.h"
#include "tail.h"

namespace fs = std::filesystem;

namespace sl::makers {
namespace {

constexpr std::uintmax_t kSmallestSource = 100'000;  // bytes; below are thumbnails and drawings

struct Options {
    fs::path out;
    int count = 2000;
    int classes = 10;
    std::uint64_t seed = 0;
    std::optional<TailSet> set;
    std::vector<fs::path> sources = {"/usr/share/backgrounds", "/usr/share/wallpapers"};
};

fs::path class_path(const Options& options, int number) {
    char name[32];
    std::snprintf(name, sizeof name, "class_%02d", number % options.classes);
    return options.out / name;
}

fs::path photo_path(const Options& options, const Order& order) {
    char name[32];
    std::snprintf(name, sizeof name, "%s_%06d.jpg", order.heavy ? "heavy" : "photo", order.number);
    return class_path(options, order.number) / name;
}

bool write_file(const fs::path& path, const std::vector<std::uint8_t>& bytes) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return static_cast<bool>(file.flush());
}

// Every big JPEG below the folders, by path, so that numbers mean the same wallpaper on every run.
std::vector<Source> find_sources(const std::vector<fs::path>& folders) {
    std::vector<Source> sources;
    for (const fs::path& folder : folders) {
        std::error_code error;
        for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
             it.increment(error)) {
            std::error_code unreadable;
            const std::string ending = it->path().extension().string();
            if ((ending != ".jpg" && ending != ".jpeg") || it->is_symlink(unreadable)) continue;
            const auto size = it->file_size(unreadable);
            if (unreadable || size < kSmallestSource) continue;
            Source source{it->path().string()};
            if (read_jpeg_size(source.path, source.width, source.height))
                sources.push_back(std::move(source));
        }
    }
    std::sort(sources.begin(), sources.end(),
              [](const Source& a, const Source& b) { return a.path < b.path; });
    return sources;
}

// Wallpapers are taken one by one by the threads: each is decoded once, and at most one per thread is held.
class Factory {
  public:
    Factory(const Options& options, const std::vector<Source>& sources)
        : options_(options), sources_(sources), orders_(sources.size()) {
        for (int number = 0; number < options.count; ++number) {
            Order order = options.set ? draw_tail_order(*options.set, options.seed, sources, number)
                                      : draw_order(options.seed, sources, number);
            orders_[order.source].push_back(order);
        }
    }

    // Empty when every photograph was written.
    std::string run(unsigned threads) {
        {
            std::vector<std::jthread> pool;
            for (unsigned i = 0; i < threads; ++i)
                pool.emplace_back([this] { work(); });
        }
        return error_;
    }

    [[nodiscard]] double mean_bytes() const { return static_cast<double>(bytes_) / options_.count; }

  private:
    void work() {
        RgbImage wallpaper;
        std::vector<std::uint8_t> bytes;
        for (std::size_t s = next_++; s < sources_.size() && !failed_; s = next_++) {
            if (orders_[s].empty()) continue;
            if (!read_jpeg(sources_[s].path, wallpaper)) return fail("cannot decode " + sources_[s].path);
            for (const Order& order : orders_[s]) {
                const fs::path path = photo_path(options_, order);
                if (!make_photo(wallpaper, order, bytes) || !write_file(path, bytes))
                    return fail("cannot write " + path.string());
                bytes_ += bytes.size();
            }
        }
    }

    void fail(const std::string& message) {
        const std::lock_guard lock(mutex_);
        error_ = message;
        failed_ = true;
    }

    const Options& options_;
    const std::vector<Source>& sources_;
    std::vector<std::vector<Order>> orders_;  // by source
    std::atomic<std::size_t> next_{0};
    std::atomic<std::uint64_t> bytes_{0};
    std::atomic<bool> failed_{false};
    std::mutex mutex_;
    std::string error_;
};

int complain(const std::string& message, int status) {
    std::fprintf(stderr, "sl_make_photos: %s\n", message.c_str());
    return status;
}

int make_all(const Options& options) {
    const fs::path stamp = options.out / ".made";
    const std::string label = "count " + std::to_string(options.count) + " classes " +
                              std::to_string(options.classes) + " seed " + std::to_string(options.seed) +
                              (options.set ? std::string(" set ") + static_cast<char>(*options.set) : "") +
                              "\n";
    if (std::ifstream made(stamp); made) {
        const std::string found{std::istreambuf_iterator<char>(made), {}};
        if (found == label) return 0;
        return complain(options.out.string() + " holds another set (" + found.substr(0, found.find('\n')) +
                            "); name another folder",
                        1);
    }
    const std::vector<Source> sources = find_sources(options.sources);
    if (sources.empty())
        return complain(
            "no JPEG over 100 kB in the wallpaper folders; install ukui-wallpapers or "
            "mate-backgrounds, or name a folder with --source",
            1);
    for (int i = 0; i < options.classes; ++i) {
        std::error_code error;
        fs::create_directories(class_path(options, i), error);
        if (error) return complain("cannot make " + options.out.string() + ": " + error.message(), 1);
    }
    Factory factory(options, sources);
    const std::string error = factory.run(std::max(1U, std::thread::hardware_concurrency()));
    if (!error.empty()) return complain(error, 1);
    if (!write_file(stamp, {label.begin(), label.end()}))
        return complain("cannot write " + stamp.string(), 1);
    std::printf("made %d photographs in %s, %.1f kB in the mean, from %zu wallpapers\n", options.count,
                options.out.c_str(), factory.mean_bytes() / 1000.0, sources.size());
    return 0;
}

bool parse(int argc, char** argv, Options& options) {
    bool own_sources = false;
    for (int i = 1; i < argc; ++i) {
        const std::string_view word = argv[i];
        if (!word.starts_with("--")) {
            if (!options.out.empty()) return false;
            options.out = word;
            continue;
        }
        if (i + 1 == argc) return false;
        const char* value = argv[++i];
        if (word == "--count")
            options.count = std::atoi(value);
        else if (word == "--classes")
            options.classes = std::atoi(value);
        else if (word == "--seed")
            options.seed = std::strtoull(value, nullptr, 10);
        else if (word == "--set" && std::string_view("ABCD").find(value) != std::string_view::npos &&
                 std::string_view(value).size() == 1)
            options.set = static_cast<TailSet>(*value);
        else if (word == "--source") {
            if (!own_sources) options.sources.clear();
            own_sources = true;
            options.sources.emplace_back(value);
        } else
            return false;
    }
    return !options.out.empty() && options.count > 0 && options.classes > 0 &&
           options.classes <= options.count;
}

}  // namespace
}  // namespace sl::makers

int main(int argc, char** argv) {
    sl::makers::Options options;
    if (!sl::makers::parse(argc, argv, options)) {
        std::fprintf(stderr,
                     "usage: sl_make_photos OUT [--count N] [--classes N] [--seed N] [--set A|B|C|D] "
                     "[--source FOLDER]...\n");
        return 2;
    }
    return sl::makers::make_all(options);
}
