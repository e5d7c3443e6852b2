// Runs pipelines for the Python tests: one request a line on stdin, one answer on stdout, many per process.
//
//   request:  SAMPLE_ID WORD... <tab> PATH
//   words:    fast | channels:N | max_pixels:N | out:H:W | rrc:H:W | resize:H:W | short:N | center:H:W |
//             flip:P
//   answer:   ok FORMAT WIDTH HEIGHT PROGRESSIVE WARNINGS AMBIGUOUS X Y W H RW RH CX CY FLIP GW GH BYTES
//             MICROS RSS_KB
//             followed by BYTES raw bytes (GW and GH: the size at a glance, 0 if that tells nothing), or
//             error KIND OFFSET MICROS RSS_KB MESSAGE
//
// `out` is the sample's size where no op fixes it. Ends at the end of input; exit status 2 for a bad request.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "daemon/worker/decode/glance.h"
#include "daemon/worker/transform/execute.h"

namespace {

struct Request {
    sl::Pipeline pipeline;
    sl::DrawKey key;
    std::string path;
};

bool add_op(sl::Pipeline& pipeline, const std::string& name, double first, double second) {
    const auto height = static_cast<std::uint32_t>(first);
    const auto width = static_cast<std::uint32_t>(second);
    sl::Op op{.slot = pipeline.op_count, .height = height, .width = width};
    if (name == "rrc") {
        op.kind = sl::OpKind::kRandomResizedCrop;
    } else if (name == "resize") {
        op.kind = sl::OpKind::kResize;
    } else if (name == "short") {
        op.kind = sl::OpKind::kResize;
        op.width = 0;
    } else if (name == "center") {
        op.kind = sl::OpKind::kCenterCrop;
    } else if (name == "flip") {
        op.kind = sl::OpKind::kRandomHorizontalFlip;
        op.probability = first;
    } else {
        return false;
    }
    if (pipeline.op_count == sl::kMaxOps) return false;
    pipeline.ops[pipeline.op_count++] = op;
    if (name == "flip" || name == "short") return true;
    pipeline.height = height;
    pipeline.width = width;
    return true;
}

bool add_word(sl::Pipeline& pipeline, const std::string& word) {
    std::istringstream parts(word);
    std::string name;
    std::string first = "0";
    std::string second = "0";
    std::getline(parts, name, ':');
    std::getline(parts, first, ':');
    std::getline(parts, second, ':');
    const double a = std::atof(first.c_str());
    const double b = std::atof(second.c_str());
    if (name == "fast") {
        pipeline.profile = sl::Profile::kFast;
    } else if (name == "pillow13") {
        pipeline.profile = sl::Profile::kPillow13;
    } else if (name == "channels") {
        pipeline.channels = static_cast<std::uint32_t>(a);
    } else if (name == "max_pixels") {
        pipeline.max_pixels = static_cast<std::uint64_t>(a);
    } else if (name == "out") {
        pipeline.height = static_cast<std::uint32_t>(a);
        pipeline.width = static_cast<std::uint32_t>(b);
    } else {
        return add_op(pipeline, name, a, b);
    }
    return true;
}

bool parse(const std::string& line, Request& request) {
    const std::size_t tab = line.find('\t');
    if (tab == std::string::npos) return false;
    request.path = line.substr(tab + 1);
    std::istringstream words(line.substr(0, tab));
    words >> request.key.sample_id;
    request.pipeline.ops[request.pipeline.op_count++] = {};  // decode
    for (std::string word; words >> word;) {
        if (!add_word(request.pipeline, word)) return false;
    }
    return true;
}

long resident_peak_kb() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

void answer(const Request& request, sl::Executor& executor) {
    std::ifstream stream(request.path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    // Exactly the file's bytes on the heap, so that a sanitizer sees any read past their end.
    const std::vector<std::byte> file(reinterpret_cast<const std::byte*>(text.data()),
                                      reinterpret_cast<const std::byte*>(text.data()) + text.size());
    std::vector<std::uint8_t> out(request.pipeline.sample_bytes());
    const auto start = std::chrono::steady_clock::now();
    const auto done = executor.execute(request.pipeline, request.key, file, out.data());
    const auto took = std::chrono::steady_clock::now() - start;
    const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(took).count();
    if (!done) {
        std::cout << "error " << sl::to_string(done.error().kind) << ' ' << done.error().offset << ' '
                  << micros << ' ' << resident_peak_kb() << ' ' << done.error().message << std::endl;
        return;
    }
    const sl::Geometry& g = done->geometry;
    const auto glanced = sl::glance(file).value_or(sl::ImageInfo{});
    std::cout << "ok " << sl::to_string(done->format) << ' ' << done->width << ' ' << done->height << ' '
              << done->progressive << ' ' << done->warnings << ' ' << done->ambiguous_colour << ' ' << g.box.x
              << ' ' << g.box.y << ' ' << g.box.width << ' ' << g.box.height << ' ' << g.resize_width << ' '
              << g.resize_height << ' ' << g.crop_x << ' ' << g.crop_y << ' ' << g.flip << ' '
              << glanced.width << ' ' << glanced.height << ' ' << out.size() << ' ' << micros << ' '
              << resident_peak_kb() << '\n';
    std::cout.write(reinterpret_cast<const char*>(out.data()), static_cast<std::streamsize>(out.size()));
    std::cout.flush();
}

}  // namespace

int main() {
    if (const auto started = sl::start_codecs(); !started) {
        std::cerr << started.error().message << '\n';
        return 1;
    }
    sl::Executor executor;
    for (std::string line; std::getline(std::cin, line);) {
        Request request;
        if (!parse(line, request)) {
            std::cerr << "bad request: " << line << '\n';
            return 2;
        }
        answer(request, executor);
    }
    return 0;
}
