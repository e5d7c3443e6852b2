// Draws, cuts and shrinks one photograph (photo.h). Sizes follow what make_photos.cpp promises.
#include "photo.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace sl::makers {
namespace {

constexpr double kFlatBytesPerPixel = 0.13;  // less than this is empty sky: the region is drawn again
constexpr int kTries = 6;

// Area averaging with borders on whole source pixels: each source pixel of the region is read once.
void shrink(const RgbImage& from, int x0, int y0, int width, int height, RgbImage& to) {
    const auto columns = static_cast<std::size_t>(to.width);
    to.pixels.resize(3 * columns * static_cast<std::size_t>(to.height));
    std::vector<std::uint32_t> sums(3 * columns);
    std::vector<int> border(columns + 1);
    for (std::size_t i = 0; i <= columns; ++i)
        border[i] = static_cast<int>(static_cast<std::int64_t>(i) * width / to.width);
    std::uint8_t* out = to.pixels.data();
    for (int row = 0, top = 0, bottom = 0; row < to.height; ++row, top = bottom) {
        bottom = static_cast<int>(static_cast<std::int64_t>(row + 1) * height / to.height);
        std::fill(sums.begin(), sums.end(), 0U);
        for (int y = y0 + top; y < y0 + bottom; ++y) {
            const std::uint8_t* in = from.pixels.data() + std::size_t{3} * (std::size_t(y) * from.width + x0);
            for (std::size_t i = 0; i < columns; ++i) {
                std::uint32_t r = 0, g = 0, b = 0;
                for (int n = border[i + 1] - border[i]; n > 0; --n, in += 3) {
                    r += in[0];
                    g += in[1];
                    b += in[2];
                }
                sums[3 * i] += r;
                sums[3 * i + 1] += g;
                sums[3 * i + 2] += b;
            }
        }
        for (std::size_t i = 0; i < columns; ++i) {
            const auto area = static_cast<std::uint32_t>((border[i + 1] - border[i]) * (bottom - top));
            for (std::size_t c = 0; c < 3; ++c)
                *out++ = static_cast<std::uint8_t>((sums[3 * i + c] + area / 2) / area);
        }
    }
}

// Position `at` on a strip that goes forth and back over `length` pixels without an end.
int fold(int at, int length) {
    at %= 2 * length;
    return at < length ? at : 2 * length - 1 - at;
}

void fill_with_mirror_images(const RgbImage& from, RgbImage& to) {
    to.pixels.resize(std::size_t{3} * to.width * to.height);
    std::uint8_t* out = to.pixels.data();
    for (int y = 0; y < to.height; ++y) {
        const std::uint8_t* row = from.pixels.data() + std::size_t{3} * from.width * fold(y, from.height);
        for (int x = 0; x < to.width; ++x, out += 3)
            std::copy_n(row + std::size_t{3} * fold(x, from.width), 3, out);
    }
}

// Mild contrast and brightness, so that two photographs of one wallpaper are not all alike.
void change_contrast(RgbImage& image, double contrast, double brightness) {
    std::uint8_t table[256];
    for (int v = 0; v < 256; ++v)
        table[v] = static_cast<std::uint8_t>(std::clamp((v - 128) * contrast + 128 + brightness, 0.0, 255.0));
    for (std::uint8_t& value : image.pixels)
        value = table[value];
}

}  // namespace

double Random::normal() {  // Box-Muller
    const double radius = std::sqrt(-2.0 * std::log(uniform(0x1p-53, 1.0)));
    return radius * std::cos(uniform(0.0, 2.0 * std::numbers::pi));
}

Order draw_order(std::uint64_t seed, const std::vector<Source>& sources, int number) {
    Random random(seed, static_cast<std::uint64_t>(number));
    Order order;
    order.number = number;
    double longest = 480.0 * std::exp(0.25 * random.normal());
    if (random.chance(0.03)) longest *= 4.0;
    const double aspect = random.chance(0.7) ? random.uniform(1.2, 1.5) : random.uniform(0.66, 0.85);
    order.width = std::max(16, static_cast<int>(aspect >= 1 ? longest : longest * aspect));
    order.height = std::max(16, static_cast<int>(aspect >= 1 ? longest / aspect : longest));
    order.quality = 88 + static_cast<int>(random.bits() % 10);
    order.sampling = random.chance(0.8) ? Sampling::k420 : Sampling::k444;
    for (int attempt = 0; attempt < 64; ++attempt) {  // nothing is ever enlarged: a source must be big enough
        order.source = random.bits() % sources.size();
        const Source& source = sources[order.source];
        if (source.width >= order.width && source.height >= order.height) break;
    }
    const Source& source = sources[order.source];
    const double fit = std::min({1.0, static_cast<double>(source.width) / order.width,
                                 static_cast<double>(source.height) / order.height});
    order.width = static_cast<int>(order.width * fit);
    order.height = static_cast<int>(order.height * fit);
    order.random = random;
    return order;
}

bool make_photo(const RgbImage& wallpaper, Order order, std::vector<std::uint8_t>& bytes) {
    RgbImage photo;
    photo.width = order.width;
    photo.height = order.height;
    if (order.width > wallpaper.width || order.height > wallpaper.height) {
        fill_with_mirror_images(wallpaper, photo);
        change_contrast(photo, order.random.uniform(0.9, 1.3), order.random.uniform(-12.0, 12.0));
        return encode_jpeg(photo, order.quality, order.sampling, order.progressive, bytes);
    }
    const double most = std::min({3.0, static_cast<double>(wallpaper.width) / order.width,
                                  static_cast<double>(wallpaper.height) / order.height});
    for (int attempt = 0; attempt < (order.heavy ? 1 : kTries); ++attempt) {
        const double factor = order.random.uniform(1.0, most);
        const int width = std::min(wallpaper.width, static_cast<int>(order.width * factor));
        const int height = std::min(wallpaper.height, static_cast<int>(order.height * factor));
        const auto free_x = static_cast<std::uint64_t>(wallpaper.width - width + 1);
        const auto free_y = static_cast<std::uint64_t>(wallpaper.height - height + 1);
        const int x = static_cast<int>(order.random.bits() % free_x);
        const int y = static_cast<int>(order.random.bits() % free_y);
        shrink(wallpaper, x, y, width, height, photo);
        change_contrast(photo, order.random.uniform(0.9, 1.3), order.random.uniform(-12.0, 12.0));
        if (!encode_jpeg(photo, order.quality, order.sampling, order.progressive, bytes)) return false;
        const double pixels = static_cast<double>(order.width) * order.height;
        if (static_cast<double>(bytes.size()) >= kFlatBytesPerPixel * pixels) break;
    }
    return true;
}

}  // namespace sl::makers
