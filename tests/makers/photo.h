// One photograph of the makers' set: what it shall be, and cutting it from a wallpaper.
//
// Called by make_photos.cpp. Everything follows from (seed, number) and the list of wallpapers; no state is
// shared, so any number of threads may call. Failure: `make_photo` gives false when libjpeg has no memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rgb_jpeg.h"

namespace sl::makers {

struct Source {
    std::string path;
    int width = 0;
    int height = 0;
};

// SplitMix64 (Steele, Lea, Flood 2014): a whole stream from one number, so photographs need no order.
class Random {
  public:
    Random(std::uint64_t seed, std::uint64_t number) : state_(seed * 0xD1342543DE82EF95ULL + number) {
        bits();
    }

    std::uint64_t bits() {
        std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
        return z ^ (z >> 31);
    }
    double uniform(double low, double high) {
        return low + (high - low) * static_cast<double>(bits() >> 11) * 0x1p-53;
    }
    double normal();
    bool chance(double p) { return uniform(0.0, 1.0) < p; }

  private:
    std::uint64_t state_;
};

// What one photograph shall be, but for where it is cut.
struct Order {
    int number = 0;
    std::size_t source = 0;
    int width = 0;
    int height = 0;
    int quality = 0;
    Sampling sampling = Sampling::k420;
    bool progressive = false;
    bool heavy = false;   // shall cost many times what most others do; said in the file's name
    Random random{0, 0};  // goes on with the region and the contrast
};

// Size, quality, sampling and wallpaper of photograph `number`. `sources` must not be empty.
[[nodiscard]] Order draw_order(std::uint64_t seed, const std::vector<Source>& sources, int number);

// Cuts, shrinks and encodes; a region with next to no detail is drawn again a few times. What is larger than
// the wallpaper gets the wallpaper and its mirror images side by side.
[[nodiscard]] bool make_photo(const RgbImage& wallpaper, Order order, std::vector<std::uint8_t>& bytes);

}  // namespace sl::makers
