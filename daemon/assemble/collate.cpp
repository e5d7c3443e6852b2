// The kernels of the fused pass. A division is a product with the reciprocal and one correction step, which
// NormalizeTable::exact vouches for; where it does not, and for the last pixels of a row, values are looked
// up.
//
// Called through collate_row; thread safety and failures as in collate.h.
#include "daemon/assemble/collate.h"

#include <cstddef>
#include <cstring>
#include <type_traits>

// Scalable vectors have no fixed number of lanes, which the channel patterns below need.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "daemon/assemble/collate.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef SL_COLLATE_FORMATS
#define SL_COLLATE_FORMATS
namespace sl {
namespace {

// A dtype's element and its table.
struct Float32 {
    using Element = float;
    static const auto& values(const NormalizeTable& table) { return table.f32; }
};
struct Float16 {
    using Element = std::uint16_t;
    static const auto& values(const NormalizeTable& table) { return table.f16; }
};
struct Bfloat16 {
    using Element = std::uint16_t;
    static const auto& values(const NormalizeTable& table) { return table.bf16; }
};

// Rows from this size on would push other things out of a core's cache.
constexpr std::uint64_t kLargeRow = std::uint64_t{128} << 10;

}  // namespace
}  // namespace sl
#endif

HWY_BEFORE_NAMESPACE();
namespace sl {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR

using D8 = hn::ScalableTag<std::uint8_t>;
using V8 = hn::Vec<D8>;

// Whole vectors of pixels to planes; returns how many pixels.
template <std::size_t kChannels>
std::size_t planes_of_bytes(const std::uint8_t* in, std::size_t pixels, std::uint8_t* out) {
    const D8 d8;
    std::size_t x = 0;
    for (; pixels - x >= HWY_MAX_BYTES; x += HWY_MAX_BYTES) {
        V8 v0, v1, v2, v3;
        if constexpr (kChannels == 4) {
            hn::LoadInterleaved4(d8, in + 4 * x, v0, v1, v2, v3);
            hn::StoreU(v3, d8, out + 3 * pixels + x);
        } else {
            hn::LoadInterleaved3(d8, in + 3 * x, v0, v1, v2);
        }
        hn::StoreU(v0, d8, out + x);
        hn::StoreU(v1, d8, out + pixels + x);
        hn::StoreU(v2, d8, out + 2 * pixels + x);
    }
    return x;
}

#endif

// The tables need only memory; the arithmetic needs fused multiply-add for its correction step.
#if HWY_NATIVE_FMA

using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;
using DBytes = hn::Rebind<std::uint8_t, DF>;
using VBytes = hn::Vec<DBytes>;
constexpr std::size_t kLanes = HWY_MAX_BYTES / sizeof(float);

struct Norm {
    VF mean, std, inverse;
};

HWY_INLINE VF divide(VF numerator, VF divisor, VF inverse) {
    const VF estimate = hn::Mul(numerator, inverse);
    return hn::MulAdd(hn::NegMulAdd(estimate, divisor, numerator), inverse, estimate);
}

HWY_INLINE VF normalize(VBytes bytes, const Norm& norm) {
    const DF df;
    const hn::RebindToSigned<DF> di;
    const VF values = hn::ConvertTo(df, hn::PromoteTo(di, bytes));
    const VF share = divide(values, hn::Set(df, 255.0F), hn::Set(df, 1.0F / 255.0F));
    return divide(hn::Sub(share, norm.mean), norm.std, norm.inverse);
}

template <bool kStream, class V, class D, class T>
HWY_INLINE void put_vector(V v, D d, T* out) {
    if constexpr (kStream) {
        hn::Stream(v, d, out);
    } else {
        hn::StoreU(v, d, out);
    }
}

template <class Format, bool kStream>
HWY_INLINE void put(VF values, typename Format::Element* out) {
    const DF df;
    const hn::Rebind<std::uint16_t, DF> d16;
    if constexpr (std::is_same_v<Format, Float32>) {
        put_vector<kStream>(values, df, out);
    } else if constexpr (std::is_same_v<Format, Float16>) {
        const hn::Rebind<hwy::float16_t, DF> dhalf;
        put_vector<kStream>(hn::BitCast(d16, hn::DemoteTo(dhalf, values)), d16, out);
    } else {
        const hn::RebindToUnsigned<DF> du;
        const hn::RebindToSigned<DF> di;
        const auto bits = hn::BitCast(du, values);
        const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
        const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fff)));
        const auto high = hn::BitCast(di, hn::ShiftRight<16>(rounded));
        put_vector<kStream>(hn::DemoteTo(d16, high), d16, out);
    }
}

// Whole vectors in the sample's own order; returns how many elements. Lane by lane the channels repeat every
// kChannels vectors.
template <class Format, bool kStream, std::size_t kChannels>
std::size_t keep_order(const std::uint8_t* in, const NormalizeTable& table, std::size_t elements,
                       typename Format::Element* out) {
    const DF df;
    const DBytes dbytes;
    HWY_ALIGN float mean[kChannels * kLanes];
    HWY_ALIGN float deviation[kChannels * kLanes];
    HWY_ALIGN float inverse[kChannels * kLanes];
    for (std::size_t i = 0; i < kChannels * kLanes; ++i) {
        mean[i] = table.mean[i % kChannels];
        deviation[i] = table.std[i % kChannels];
        inverse[i] = table.inverse_std[i % kChannels];
    }
    std::size_t x = 0;
    for (; elements - x >= kChannels * kLanes; x += kChannels * kLanes) {
        for (std::size_t i = 0; i < kChannels * kLanes; i += kLanes) {
            const Norm norm{hn::Load(df, mean + i), hn::Load(df, deviation + i), hn::Load(df, inverse + i)};
            put<Format, kStream>(normalize(hn::LoadU(dbytes, in + x + i), norm), out + x + i);
        }
    }
    return x;
}

HWY_INLINE Norm norm_of(const NormalizeTable& table, std::size_t channel) {
    const DF df;
    return {hn::Set(df, table.mean[channel]), hn::Set(df, table.std[channel]),
            hn::Set(df, table.inverse_std[channel])};
}

// Whole vectors of pixels to planes; returns how many pixels.
template <class Format, bool kStream, std::size_t kChannels>
std::size_t planes(const std::uint8_t* in, const NormalizeTable& table, std::size_t pixels,
                   typename Format::Element* out) {
    const DBytes dbytes;
    const Norm n0 = norm_of(table, 0);
    const Norm n1 = norm_of(table, 1);
    const Norm n2 = norm_of(table, 2);
    const Norm n3 = norm_of(table, 3);
    std::size_t x = 0;
    for (; pixels - x >= kLanes; x += kLanes) {
        VBytes v0, v1, v2, v3;
        if constexpr (kChannels == 4) {
            hn::LoadInterleaved4(dbytes, in + 4 * x, v0, v1, v2, v3);
            put<Format, kStream>(normalize(v3, n3), out + 3 * pixels + x);
        } else {
            hn::LoadInterleaved3(dbytes, in + 3 * x, v0, v1, v2);
        }
        put<Format, kStream>(normalize(v0, n0), out + x);
        put<Format, kStream>(normalize(v1, n1), out + pixels + x);
        put<Format, kStream>(normalize(v2, n2), out + 2 * pixels + x);
    }
    return x;
}

template <class Format, bool kStream>
std::size_t fast_part(const std::uint8_t* in, const NormalizeTable& table, const CollateTarget& target,
                      std::size_t pixels) {
    auto* out = static_cast<typename Format::Element*>(target.row);
    const bool planar = target.layout == Layout::kNchw;
    switch (target.channels) {
        case 1:
            return keep_order<Format, kStream, 1>(in, table, pixels, out);
        case 3:
            return planar ? planes<Format, kStream, 3>(in, table, pixels, out)
                          : keep_order<Format, kStream, 3>(in, table, pixels * 3, out) / 3;
        case 4:
            return planar ? planes<Format, kStream, 4>(in, table, pixels, out)
                          : keep_order<Format, kStream, 4>(in, table, pixels * 4, out) / 4;
        default:
            return 0;
    }
}

// Whether every vector that fast_part stores starts where a streaming store may.
template <class Format>
bool can_stream(const CollateTarget& target, std::size_t pixels) {
    constexpr std::size_t bytes = kLanes * sizeof(typename Format::Element);
    const bool planar = target.layout == Layout::kNchw && target.channels > 1;
    const bool planes_aligned = !planar || pixels * sizeof(typename Format::Element) % bytes == 0;
    return planes_aligned && reinterpret_cast<std::uintptr_t>(target.row) % bytes == 0;
}

#endif  // HWY_NATIVE_FMA

template <class Format>
void collate_format(const std::uint8_t* in, const NormalizeTable& table, const CollateTarget& target) {
    const std::size_t pixels = std::size_t{target.height} * target.width;
    const std::size_t channels = target.channels;
    std::size_t done = 0;  // pixels
#if HWY_NATIVE_FMA
    if (table.exact) {
        if (row_bytes(target) >= kLargeRow && can_stream<Format>(target, pixels)) {
            done = fast_part<Format, true>(in, table, target, pixels);
            hwy::FlushStream();
        } else {
            done = fast_part<Format, false>(in, table, target, pixels);
        }
    }
#endif
    const auto& values = Format::values(table);
    auto* out = static_cast<typename Format::Element*>(target.row);
    const bool planar = target.layout == Layout::kNchw;
    const std::size_t pixel_step = planar ? 1 : channels;
    const std::size_t channel_step = planar ? pixels : 1;
    for (std::size_t x = done; x < pixels; ++x) {
        for (std::size_t c = 0; c < channels; ++c) {
            out[x * pixel_step + c * channel_step] = values[c][in[x * channels + c]];
        }
    }
}

void collate_bytes(const std::uint8_t* in, const CollateTarget& target) {
    const std::size_t pixels = std::size_t{target.height} * target.width;
    const std::size_t channels = target.channels;
    auto* out = static_cast<std::uint8_t*>(target.row);
    if (channels == 1 || target.layout == Layout::kNhwc) {
        std::memcpy(out, in, pixels * channels);
        return;
    }
    std::size_t done = 0;
#if HWY_TARGET != HWY_SCALAR
    if (channels == 3) done = planes_of_bytes<3>(in, pixels, out);
    if (channels == 4) done = planes_of_bytes<4>(in, pixels, out);
#endif
    for (std::size_t x = done; x < pixels; ++x) {
        for (std::size_t c = 0; c < channels; ++c)
            out[c * pixels + x] = in[x * channels + c];
    }
}

void collate(const std::uint8_t* sample, const NormalizeTable& table, const CollateTarget& target) {
    switch (target.dtype) {
        case Dtype::kFloat32:
            return collate_format<Float32>(sample, table, target);
        case Dtype::kFloat16:
            return collate_format<Float16>(sample, table, target);
        case Dtype::kBfloat16:
            return collate_format<Bfloat16>(sample, table, target);
        case Dtype::kUint8:
            return collate_bytes(sample, target);
        case Dtype::kInt64:
        case Dtype::kUint64:
            return;
    }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sl
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sl {

namespace {
HWY_EXPORT(collate);
}  // namespace

void collate_row(const std::uint8_t* sample, const NormalizeTable& table, const CollateTarget& target) {
    HWY_DYNAMIC_DISPATCH(collate)(sample, table, target);
}

}  // namespace sl
#endif
