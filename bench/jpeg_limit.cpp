// sl_bench_jpeg_limit FOLDER [--mode region|fast] [--processes N] [--passes N]
//
// The bar that SpeedyLoader is measured against: the kept libraries alone, doing as little as the task
// allows. One process per core takes JPEGs that already lie in memory, draws a random-resized-crop
// (torchvision's distribution) and a flip, decodes the region with libjpeg-turbo, scales it to 224 x 224 with
// libyuv, normalises to float32 NCHW and stores it in a row of a preallocated batch of 64. No files, no
// rings, no order, no labels. `region` decodes at full size; `fast` lets libjpeg reduce to 1/2, 1/4 or 1/8
// inside its inverse DCT, the largest reduction that still covers the output (the eighths between those run
// in plain C there: using them makes this program a tenth slower). libjpeg's other settings are its defaults.
//
// What is done to make it a high bar: four-channel output straight in the order libyuv wants, decoders and
// buffers reused, pictures taken from one shared counter so that no process waits for another, memory touched
// before the clock starts, and this file is compiled for the machine it runs on. An empty asm statement that
// reads each row keeps the optimiser from deleting the work.
//
// Called by bench/throughput.py. Prints one JSON line: {"mode", "sps", "cpu_s_per_1k", "samples",
// "processes"}. CPU is user + system time of the working processes between the starting signal and their end.
// Failure (no JPEG, a damaged JPEG, a process that died): one line on stderr, exit 1; 2 for wrong use.
// clang-format off
#include <cstdio>  // jpeglib.h uses its types and includes nothing
#include <jpeglib.h>
// clang-format on
#include <libyuv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace fs = std::filesystem;

namespace {

using Clock = std::chrono::steady_clock;
using Bytes = std::vector<unsigned char>;

constexpr int kSize = 224;
constexpr std::size_t kPlane = std::size_t{kSize} * kSize;
constexpr std::size_t kBatch = 64;
constexpr float kMean[3] = {0.485F, 0.456F, 0.406F};
constexpr float kStd[3] = {0.229F, 0.224F, 0.225F};

struct Options {
    fs::path folder;
    bool dct_scaling = false;
    int processes = 1;
    int passes = 1;
};

struct Box {
    JDIMENSION x, y, width, height;
};

// torchvision's RandomResizedCrop: ten tries of (area share, aspect), then the largest allowed centre crop.
Box draw_box(std::minstd_rand& random, int width, int height) {
    std::uniform_real_distribution<double> share(0.08, 1.0);
    std::uniform_real_distribution<double> log_ratio(std::log(3.0 / 4.0), std::log(4.0 / 3.0));
    for (int attempt = 0; attempt < 10; ++attempt) {
        const double area = share(random) * width * height;
        const double ratio = std::exp(log_ratio(random));
        const int w = static_cast<int>(std::lround(std::sqrt(area * ratio)));
        const int h = static_cast<int>(std::lround(std::sqrt(area / ratio)));
        if (w < 1 || h < 1 || w > width || h > height) continue;
        const int y = std::uniform_int_distribution<int>(0, height - h)(random);
        const int x = std::uniform_int_distribution<int>(0, width - w)(random);
        return {JDIMENSION(x), JDIMENSION(y), JDIMENSION(w), JDIMENSION(h)};
    }
    const int w = std::min(width, static_cast<int>(std::lround(height * 4.0 / 3.0)));
    const int h = std::min(height, static_cast<int>(std::lround(width * 4.0 / 3.0)));
    return {JDIMENSION((width - w) / 2), JDIMENSION((height - h) / 2), JDIMENSION(w), JDIMENSION(h)};
}

// Where the box lies in decoded pixels, and how many of those the decoder hands out (whole blocks from the
// left).
struct Region {
    int width, height, stride, left;
};

class Decoder {
  public:
    Decoder() {
        codec_.err = jpeg_std_error(&errors_);
        errors_.error_exit = [](j_common_ptr codec) {
            std::longjmp(static_cast<Decoder*>(codec->client_data)->back_, 1);
        };
        errors_.output_message = [](j_common_ptr) {};
        codec_.client_data = this;
        jpeg_create_decompress(&codec_);
    }
    Decoder(const Decoder&) = delete;
    Decoder& operator=(const Decoder&) = delete;
    ~Decoder() { jpeg_destroy_decompress(&codec_); }

    // Decodes one random region to BGRA in `pixels()`.
    bool decode(const Bytes& bytes, std::minstd_rand& random, bool dct_scaling, Region& region) {
        if (setjmp(back_)) return false;
        jpeg_mem_src(&codec_, bytes.data(), bytes.size());
        jpeg_read_header(&codec_, TRUE);
        codec_.out_color_space = JCS_EXT_BGRA;
        Box box = draw_box(random, int(codec_.image_width), int(codec_.image_height));
        if (dct_scaling) reduce(box);
        jpeg_start_decompress(&codec_);
        box.width = std::clamp(box.width, JDIMENSION{1}, codec_.output_width - box.x);
        box.height = std::clamp(box.height, JDIMENSION{1}, codec_.output_height - box.y);
        JDIMENSION start = box.x;
        JDIMENSION width = box.width;
        jpeg_crop_scanline(&codec_, &start, &width);
        region = {int(box.width), int(box.height), int(codec_.output_width) * 4, int(box.x - start)};
        if (pixels_.size() < std::size_t(region.stride) * box.height)
            pixels_.resize(std::size_t(region.stride) * box.height);
        if (box.y > 0) jpeg_skip_scanlines(&codec_, box.y);
        for (JDIMENSION row = 0; row < box.height;) {
            JSAMPROW rows[4];
            const JDIMENSION count = std::min<JDIMENSION>(4, box.height - row);
            for (JDIMENSION i = 0; i < count; ++i)
                rows[i] = pixels_.data() + std::size_t(region.stride) * (row + i);
            row += jpeg_read_scanlines(&codec_, rows, count);
        }
        jpeg_abort_decompress(&codec_);
        return true;
    }

    [[nodiscard]] const std::uint8_t* pixels() const { return pixels_.data(); }

  private:
    void reduce(Box& box) {
        unsigned eighths = 8;
        while (eighths > 1 && box.width * (eighths / 2) >= kSize * 8U &&
               box.height * (eighths / 2) >= kSize * 8U)
            eighths /= 2;
        codec_.scale_num = eighths;
        codec_.scale_denom = 8;
        box = {box.x * eighths / 8, box.y * eighths / 8, (box.width * eighths + 7) / 8,
               (box.height * eighths + 7) / 8};
    }

    jpeg_decompress_struct codec_{};
    jpeg_error_mgr errors_{};
    std::jmp_buf back_{};
    std::vector<std::uint8_t> pixels_;
};

// One row of BGRA to three rows of floats; `Flip` is a template argument so that both loops vectorise.
template <bool Flip>
void normalise_row(const std::uint8_t* __restrict in, float* __restrict red, float* __restrict green,
                   float* __restrict blue) {
    constexpr float kScale[3] = {1 / (255 * kStd[0]), 1 / (255 * kStd[1]), 1 / (255 * kStd[2])};
    constexpr float kShift[3] = {-kMean[0] / kStd[0], -kMean[1] / kStd[1], -kMean[2] / kStd[2]};
    for (int x = 0; x < kSize; ++x) {
        const int from = Flip ? kSize - 1 - x : x;
        red[x] = static_cast<float>(in[4 * from + 2]) * kScale[0] + kShift[0];
        green[x] = static_cast<float>(in[4 * from + 1]) * kScale[1] + kShift[1];
        blue[x] = static_cast<float>(in[4 * from]) * kScale[2] + kShift[2];
    }
}

void normalise(const std::uint8_t* bgra, bool flip, float* out) {
    for (int y = 0; y < kSize; ++y, bgra += 4 * kSize, out += kSize) {
        if (flip)
            normalise_row<true>(bgra, out, out + kPlane, out + 2 * kPlane);
        else
            normalise_row<false>(bgra, out, out + kPlane, out + 2 * kPlane);
    }
}

double cpu_seconds() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    auto seconds = [](const timeval& t) { return double(t.tv_sec) + 1e-6 * double(t.tv_usec); };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// A child's whole life: make ready, say so, wait for the signal, work, report its CPU seconds (negative:
// failed).
double work(const Options& options, const std::vector<Bytes>& files, std::atomic<std::size_t>& next,
            int ready, int go) {
    Decoder decoder;
    std::vector<float> batch(kBatch * 3 * kPlane, 1.0F);
    std::vector<std::uint8_t> scaled(4 * kPlane);
    Region region{};
    std::minstd_rand warm_up(1);
    if (!decoder.decode(files[0], warm_up, options.dct_scaling, region)) return -1;
    char byte = 0;
    if (write(ready, &byte, 1) != 1 || read(go, &byte, 1) != 0) return -1;
    const double before = cpu_seconds();
    const std::size_t total = files.size() * std::size_t(options.passes);
    for (std::size_t i = next++; i < total; i = next++) {
        std::minstd_rand random(static_cast<unsigned>(i * 2654435761U + 1));
        if (!decoder.decode(files[i % files.size()], random, options.dct_scaling, region)) return -1;
        libyuv::ARGBScale(decoder.pixels() + 4 * region.left, region.stride, region.width, region.height,
                          scaled.data(), 4 * kSize, kSize, kSize, libyuv::kFilterBox);
        float* row = batch.data() + (i % kBatch) * 3 * kPlane;
        normalise(scaled.data(), (random() & 64U) != 0, row);
        asm volatile("" : : "r"(row) : "memory");
    }
    return cpu_seconds() - before;
}

std::vector<Bytes> read_files(const fs::path& folder) {
    std::vector<fs::path> paths;
    std::error_code error;
    for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
        if (it->path().extension() == ".jpg") paths.push_back(it->path());
    std::sort(paths.begin(), paths.end());
    std::vector<Bytes> files;
    for (const fs::path& path : paths) {
        std::ifstream file(path, std::ios::binary);
        files.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    return files;
}

int complain(const char* message, int status) {
    std::fprintf(stderr, "sl_bench_jpeg_limit: %s\n", message);
    return status;
}

// Forks the processes, starts them together by closing the `go` pipe, and waits for their reports.
int measure(const Options& options, const std::vector<Bytes>& files) {
    void* memory = mmap(nullptr, sizeof(std::atomic<std::size_t>), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int ready[2], go[2], result[2];
    if (memory == MAP_FAILED || pipe(ready) || pipe(go) || pipe(result))
        return complain("no memory or pipe", 1);
    auto* next = new (memory) std::atomic<std::size_t>{0};  // the next picture to take
    for (int i = 0; i < options.processes; ++i) {
        const pid_t child = fork();
        if (child < 0) return complain("cannot fork", 1);
        if (child == 0) {
            close(go[1]);
            close(ready[0]);
            const double cpu = work(options, files, *next, ready[1], go[0]);
            _exit(write(result[1], &cpu, sizeof cpu) == sizeof cpu && cpu >= 0 ? 0 : 1);
        }
    }
    close(ready[1]);
    char byte = 0;
    for (int i = 0; i < options.processes; ++i)
        if (read(ready[0], &byte, 1) != 1) return complain("a process could not decode", 1);
    const auto start = Clock::now();
    close(go[0]);
    close(go[1]);
    bool good = true;
    for (int i = 0, status = 0; i < options.processes; ++i)
        good &= wait(&status) > 0 && status == 0;
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (!good) return complain("a process failed; is a JPEG damaged?", 1);
    double cpu = 0;
    for (int i = 0; i < options.processes; ++i) {
        double one = 0;
        if (read(result[0], &one, sizeof one) != sizeof one) return complain("a report is missing", 1);
        cpu += one;
    }
    const double samples = double(files.size()) * options.passes;
    std::printf(
        "{\"mode\": \"%s\", \"sps\": %.2f, \"cpu_s_per_1k\": %.4f, \"samples\": %.0f, \"processes\": %d}\n",
        options.dct_scaling ? "fast" : "region", samples / seconds, 1000 * cpu / samples, samples,
        options.processes);
    return 0;
}

bool parse(int argc, char** argv, Options& options) {
    options.processes = std::max(1, int(sysconf(_SC_NPROCESSORS_ONLN)));
    for (int i = 1; i < argc; ++i) {
        const std::string_view word = argv[i];
        if (!word.starts_with("--")) {
            options.folder = word;
            continue;
        }
        if (i + 1 == argc) return false;
        const std::string_view value = argv[++i];
        if (word == "--mode" && (value == "fast" || value == "region"))
            options.dct_scaling = value == "fast";
        else if (word == "--processes")
            options.processes = std::atoi(argv[i]);
        else if (word == "--passes")
            options.passes = std::atoi(argv[i]);
        else
            return false;
    }
    return !options.folder.empty() && options.processes > 0 && options.passes > 0;
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    if (!parse(argc, argv, options))
        return complain("usage: FOLDER [--mode region|fast] [--processes N] [--passes N]", 2);
    const std::vector<Bytes> files = read_files(options.folder);
    if (files.empty()) return complain("no .jpg in that folder", 1);
    return measure(options, files);
}
