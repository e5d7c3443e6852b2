// Draws the photographs of sets A to D (tail.h).
#include "tail.h"

#include <algorithm>
#include <cmath>

namespace sl::makers {
namespace {

constexpr int kRareIn = 100;  // every hundredth, for a draw would make the set's work a matter of luck
constexpr int kFifth = 5;
constexpr double kFifthPixels = 28.0;    // times the pixels of the others: about 20 times the cost
constexpr double kRarePixels = 3.6e5;    // of the others of set A: the rare ones cost about 100 times as much
constexpr double kSizeSigma = 0.5;       // of log pixels, where sizes are not the point
constexpr double kMedianPixels = 1.9e5;  // 500 x 375
constexpr double kSpreadSigma = 0.7;     // of log pixels; what each picture costs besides narrows it
constexpr int kTries = 64;

void set_size(Order& order, double pixels, double aspect) {
    order.width = std::max(16, static_cast<int>(std::lround(std::sqrt(pixels * aspect))));
    order.height = std::max(16, static_cast<int>(std::lround(std::sqrt(pixels / aspect))));
}

void make_rare(Order& order) {
    order.heavy = true;
    order.progressive = true;
    order.width = 6000;
    order.height = 4000;
    order.quality = 50;
    order.sampling = Sampling::k420;
}

}  // namespace

Order draw_tail_order(TailSet set, std::uint64_t seed, const std::vector<Source>& sources, int number) {
    Random random(seed, static_cast<std::uint64_t>(number));
    Order order;
    order.number = number;
    const double aspect = random.chance(0.7) ? random.uniform(1.2, 1.5) : random.uniform(0.66, 0.85);
    const double drawn = random.normal();
    order.quality = 88 + static_cast<int>(random.bits() % 10);
    order.sampling = random.chance(0.8) ? Sampling::k420 : Sampling::k444;
    set_size(order, kMedianPixels * std::exp(kSizeSigma * drawn), aspect);
    switch (set) {
        case TailSet::kA:
            set_size(order, kRarePixels * std::exp(kSizeSigma * drawn), aspect);
            if (number % kRareIn == kRareIn / 2) make_rare(order);
            break;
        case TailSet::kB:
            set_size(order, kMedianPixels * std::exp(kSpreadSigma * drawn), aspect);
            break;
        case TailSet::kC:
            order.heavy = number % kFifth == kFifth / 2;
            if (order.heavy) set_size(order, kFifthPixels * kMedianPixels, aspect);
            break;
        case TailSet::kD:
            set_size(order, kMedianPixels, 4.0 / 3.0);
            order.quality = 92;
            order.sampling = Sampling::k420;
            break;
    }
    for (int attempt = 0; attempt < kTries; ++attempt) {
        order.source = random.bits() % sources.size();
        const Source& source = sources[order.source];
        if (source.width >= order.width && source.height >= order.height) break;
    }
    order.random = random;
    return order;
}

}  // namespace sl::makers
