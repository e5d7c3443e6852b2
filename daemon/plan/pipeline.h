// A compiled pipeline: what a spec asks to be done to each sample, as plain bytes.
//
// Made once by the spec parser in the daemon, sent as it is to the worker processes (it is trivially
// copyable and holds no pointers), and read by the draws (which box, which flip), the predictor (what it
// will cost), the worker (pixels) and the assembler (the normalise table). Immutable once made.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

namespace sl {

enum class OpKind : std::uint32_t {
    kDecode = 0,             // always first
    kRandomResizedCrop = 1,  // crop box drawn per sample, then resize to `height` x `width`
    kResize = 2,             // to height x width; width 0: the short side becomes `height`
    kCenterCrop = 3,         // height x width, zero padding where the image is smaller (as torchvision pads)
    kRandomHorizontalFlip = 4,
    kNormalize = 5,  // always last; done by the assembler in its fused pass
};

enum class Profile : std::uint32_t { kPillow = 0, kFast = 1, kPillow13 = 2 };
enum class Dtype : std::uint32_t {
    kFloat32 = 0,
    kFloat16 = 1,
    kBfloat16 = 2,
    kUint8 = 3,
    kInt64 = 4,
    kUint64 = 5
};
enum class Layout : std::uint32_t { kNchw = 0, kNhwc = 1 };

struct Op {
    OpKind kind = OpKind::kDecode;
    std::uint32_t slot = 0;      // index in the spec's pipeline; keys this op's random draws
    std::uint32_t channels = 3;  // decode
    std::uint32_t height = 0;    // crops and resizes: output rows
    std::uint32_t width = 0;     // output columns
    std::uint32_t reserved = 0;
    double scale[2] = {0.08, 1.0};             // random_resized_crop: share of the area
    double ratio[2] = {3.0 / 4.0, 4.0 / 3.0};  // random_resized_crop: width / height
    double probability = 0.5;                  // random_horizontal_flip
    bool operator==(const Op&) const = default;
};

inline constexpr std::uint32_t kMaxOps = 8;
inline constexpr std::uint32_t kMaxChannels = 4;

struct Pipeline {
    std::array<Op, kMaxOps> ops{};
    std::uint32_t op_count = 0;
    Profile profile = Profile::kPillow;
    // Every sample leaves the worker as uint8, height x width x channels, rows packed (no padding).
    std::uint32_t height = 0;
    std::uint32_t width = 0;
    std::uint32_t channels = 3;
    std::uint32_t has_normalize = 0;
    float mean[kMaxChannels] = {};
    float std[kMaxChannels] = {1, 1, 1, 1};
    std::uint64_t max_pixels =
        1ULL << 28;  // a picture with more is a pixel_budget error, before any buffer exists

    [[nodiscard]] std::uint64_t sample_bytes() const { return std::uint64_t{height} * width * channels; }
    bool operator==(const Pipeline&) const = default;
};
static_assert(std::is_trivially_copyable_v<Pipeline>);

// Half-open pixel box in the decoded picture's frame.
struct Box {
    std::uint32_t x = 0, y = 0, width = 0, height = 0;
    bool operator==(const Box&) const = default;
};

// What one sample's draws decided, given the picture's size. `resize_*` is the size of the resize's output
// before `crop`; ops that a pipeline lacks leave their identity.
struct Geometry {
    Box box;                         // region of the source that the resize reads
    std::uint32_t resize_width = 0;  // resize the box to this
    std::uint32_t resize_height = 0;
    std::int32_t crop_x = 0;  // then take Pipeline.width x height from here (zeros wherever
                              // that lies outside the resize's output)
    std::int32_t crop_y = 0;
    bool flip = false;  // then mirror left to right
    bool operator==(const Geometry&) const = default;
};

// The key of a sample's draws. Two samples share draws only if all four are equal.
struct DrawKey {
    std::uint64_t seed = 0;
    std::uint64_t epoch = 0;
    std::uint64_t sample_id = 0;
};

}  // namespace sl
