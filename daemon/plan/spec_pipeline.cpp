// Reads a spec's pipeline and holds its ops against the rules in spec_pipeline.h. Pure; errors go to
// `Problem`.
#include "daemon/plan/spec_pipeline.h"

#include <array>
#include <cmath>

namespace sl {
namespace {

using Keys = std::span<const std::string_view>;

constexpr double kMaxRatio = 1000;
constexpr double kLargestMean = 1e6;

Keys keys_of(OpKind kind) {
    static constexpr std::array<std::string_view, 2> kDecode{"op", "channels"};
    static constexpr std::array<std::string_view, 4> kRandomResizedCrop{"op", "size", "scale", "ratio"};
    static constexpr std::array<std::string_view, 2> kSized{"op", "size"};
    static constexpr std::array<std::string_view, 2> kFlip{"op", "p"};
    static constexpr std::array<std::string_view, 3> kNormalize{"op", "mean", "std"};
    switch (kind) {
        case OpKind::kDecode:
            return kDecode;
        case OpKind::kRandomResizedCrop:
            return kRandomResizedCrop;
        case OpKind::kResize:
        case OpKind::kCenterCrop:
            return kSized;
        case OpKind::kRandomHorizontalFlip:
            return kFlip;
        case OpKind::kNormalize:
            return kNormalize;
    }
    return {};
}

bool scales(OpKind kind) {
    return kind == OpKind::kRandomResizedCrop || kind == OpKind::kResize;
}

class PipelineReader {
  public:
    PipelineReader(Pipeline& pipeline, Problem& problem) : pipeline_(pipeline), problem_(problem) {}

    void read(const Json* value) {
        if (value != nullptr && !value->is_array()) {
            return problem_.report("pipeline is " + describe(*value) + ", allowed: an array of ops");
        }
        const std::size_t given = value == nullptr ? 0 : value->size();
        if (given == 0 || kind_at((*value)[0]) != OpKind::kDecode) add(Op{}, "");
        for (std::size_t i = 0; i < given; ++i) {
            if (problem_.error()) return;
            read_op((*value)[i], "pipeline[" + std::to_string(i) + "]");
        }
        check_size();
    }

  private:
    // The op's kind if it has one; anything else is reported when the op is read.
    static std::optional<OpKind> kind_at(const Json& value) {
        if (!value.is_object() || !value.contains("op") || !value["op"].is_string()) return std::nullopt;
        for (const auto& [name, kind] : kOpKinds) {
            if (value["op"].get_ref<const std::string&>() == name) return kind;
        }
        return std::nullopt;
    }

    void read_op(const Json& value, const std::string& path) {
        const std::optional<OpKind> kind = kind_at(value);
        if (!kind) return report_kind(value, path);
        Section section(&value, path, keys_of(*kind), problem_);
        Op op{.kind = *kind};
        if (*kind == OpKind::kDecode) op.channels = read_channels(section);
        if (*kind == OpKind::kRandomResizedCrop) read_crop_ranges(section, op);
        if (scales(*kind) || *kind == OpKind::kCenterCrop) read_size(section, op);
        if (*kind == OpKind::kRandomHorizontalFlip) op.probability = section.number("p", 0.5, 0, 1);
        if (*kind == OpKind::kNormalize) read_normalize(section);
        check_place(op, path);
        add(op, path);
    }

    void report_kind(const Json& value, const std::string& path) {
        std::array<std::string_view, std::size(kOpKinds)> names;
        for (std::size_t i = 0; i < names.size(); ++i)
            names[i] = kOpKinds[i].name;
        if (!value.is_object()) {
            return problem_.report(path + " is " + describe(value) + ", allowed: an object with the key op");
        }
        const auto found = value.find("op");
        problem_.report(path + ".op is " + (found == value.end() ? "missing" : describe(*found)) +
                        ", allowed: " + join(names));
    }

    void add(const Op& op, const std::string& path) {
        if (pipeline_.op_count == kMaxOps) {
            return problem_.report(path + " is one op too many: at most " + std::to_string(kMaxOps) +
                                   ", with the decode in front");
        }
        Op& slot = pipeline_.ops[pipeline_.op_count];
        slot = op;
        slot.slot = pipeline_.op_count++;
        if (op.kind == OpKind::kDecode) pipeline_.channels = op.channels;
        if (scales(op.kind) || op.kind == OpKind::kCenterCrop) {
            pipeline_.height = op.width == 0 ? 0 : op.height;
            pipeline_.width = op.width;
        }
    }

    std::uint32_t read_channels(Section& section) {
        const auto channels = section.whole("channels", 3, 1, kMaxChannels);
        if (channels == 1 || channels == 3) return static_cast<std::uint32_t>(channels);
        section.report("channels", *section.find("channels"), "1 (grey) or 3 (RGB)");
        return 3;
    }

    static void read_size(Section& section, Op& op) {
        const bool short_side = op.kind == OpKind::kResize;
        const Size size = section.size(short_side ? OneNumber::kShortSide : OneNumber::kSquare);
        op.height = size.height;
        op.width = size.width;
    }

    static void read_crop_ranges(Section& section, Op& op) {
        section.numbers("scale", op.scale, false);
        if (!(op.scale[0] > 0 && op.scale[0] <= op.scale[1] && op.scale[1] <= 1)) {
            section.report("scale", *section.find("scale"), "[low, high] with 0 < low <= high <= 1");
        }
        section.numbers("ratio", op.ratio, false);
        if (!(op.ratio[0] >= 1 / kMaxRatio && op.ratio[0] <= op.ratio[1] && op.ratio[1] <= kMaxRatio)) {
            section.report("ratio", *section.find("ratio"),
                           "[low, high] of width / height with 0.001 <= low <= high <= 1000");
        }
    }

    void read_normalize(Section& section) {
        std::array<double, kMaxChannels> mean{};
        std::array<double, kMaxChannels> deviation{1, 1, 1, 1};
        const std::size_t n = pipeline_.channels;
        section.numbers("mean", std::span(mean).first(n), true);
        section.numbers("std", std::span(deviation).first(n), true);
        for (std::size_t c = 0; c < n; ++c) {
            if (!(std::abs(mean[c]) <= kLargestMean)) {
                section.report("mean", (*section.find("mean"))[c], "numbers from -1e6 to 1e6");
            }
            if (!(deviation[c] >= 1 / kLargestMean && deviation[c] <= kLargestMean)) {
                section.report("std", (*section.find("std"))[c], "numbers from 1e-6 to 1e6");
            }
            pipeline_.mean[c] = static_cast<float>(mean[c]);
            pipeline_.std[c] = static_cast<float>(deviation[c]);
        }
        pipeline_.has_normalize = 1;
    }

    [[nodiscard]] bool has(OpKind kind) const {
        for (std::uint32_t i = 0; i < pipeline_.op_count; ++i) {
            if (pipeline_.ops[i].kind == kind) return true;
        }
        return false;
    }

    void check_place(const Op& op, const std::string& path) {
        const std::string name(name_of(kOpKinds, op.kind));
        const auto refuse = [&](const char* why) { problem_.report(path + " (" + name + ") " + why); };
        if (has(OpKind::kNormalize)) return refuse("comes after normalize, which must be the last op");
        if (op.kind == OpKind::kDecode && has(OpKind::kDecode)) {
            return refuse("is not the first op: decode comes first, and once");
        }
        if (op.kind == OpKind::kCenterCrop && has(OpKind::kCenterCrop)) {
            return refuse("is a second center_crop: keep the smaller one");
        }
        if (!scales(op.kind)) return;
        if (has(OpKind::kResize) || has(OpKind::kRandomResizedCrop)) {
            return refuse("scales a second time: a pipeline has one resize or one random_resized_crop");
        }
        if (has(OpKind::kCenterCrop)) return refuse("comes after center_crop: put it before");
        if (has(OpKind::kRandomHorizontalFlip)) {
            return refuse("comes after random_horizontal_flip: put it before");
        }
    }

    void check_size() {
        if (problem_.error()) return;
        const std::uint64_t pixels = std::uint64_t{pipeline_.height} * pipeline_.width;
        if (pixels > pipeline_.max_pixels) {
            return problem_.report("pipeline makes " + std::to_string(pixels) +
                                   " pixels a sample, more than dataset.max_pixels " +
                                   std::to_string(pipeline_.max_pixels));
        }
        if (pixels == 0 && has(OpKind::kResize)) {
            problem_.report(
                "pipeline needs a fixed output size: add center_crop after resize, or give resize a size of "
                "[height, width]");
        }
    }

    Pipeline& pipeline_;
    Problem& problem_;
};

}  // namespace

void read_pipeline(const Json* value, Pipeline& pipeline, Problem& problem) {
    PipelineReader(pipeline, problem).read(value);
}

}  // namespace sl
