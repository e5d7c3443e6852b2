// The words of a spec and the values they stand for, in the order in which errors list them.
//
// Shared by the parser and the writer of specs, so that the two cannot disagree. Constants and pure
// functions.
#pragma once

#include "daemon/plan/spec.h"

namespace sl {

template <class T>
struct Named {
    std::string_view name;
    T value;
};

inline constexpr Named<DatasetKind> kDatasetKinds[] = {
    {"image_folder", DatasetKind::kImageFolder}, {"mix", DatasetKind::kMix}, {"items", DatasetKind::kItems}};
// Lawful words that no source serves yet.
inline constexpr std::string_view kLaterDatasetKinds[] = {"file_list", "webdataset", "npy",  "nifti",
                                                          "audio",     "tokens",     "table"};
inline constexpr Named<Dtype> kOutputDtypes[] = {{"float32", Dtype::kFloat32},
                                                 {"float16", Dtype::kFloat16},
                                                 {"bfloat16", Dtype::kBfloat16},
                                                 {"uint8", Dtype::kUint8}};
inline constexpr Named<std::uint32_t> kRowDtypes[] = {
    {"float32", SL_SHM_FLOAT32}, {"float16", SL_SHM_FLOAT16}, {"bfloat16", SL_SHM_BFLOAT16},
    {"uint8", SL_SHM_UINT8},     {"int64", SL_SHM_INT64},     {"uint64", SL_SHM_UINT64},
    {"int32", SL_SHM_INT32}};
inline constexpr Named<Layout> kLayouts[] = {{"NCHW", Layout::kNchw}, {"NHWC", Layout::kNhwc}};
inline constexpr Named<LastBatch> kLastBatches[] = {
    {"drop", LastBatch::kDrop}, {"keep", LastBatch::kKeep}, {"pad", LastBatch::kPad}};
inline constexpr Named<OrderPolicy> kOrderPolicies[] = {{"strict", OrderPolicy::kStrict},
                                                        {"ready", OrderPolicy::kReady}};
inline constexpr Named<Uneven> kUnevens[] = {
    {"pad", Uneven::kPad}, {"drop", Uneven::kDrop}, {"wrap", Uneven::kWrap}};
inline constexpr Named<ErrorPolicy> kErrorPolicies[] = {{"refill", ErrorPolicy::kRefill},
                                                        {"placeholder", ErrorPolicy::kPlaceholder},
                                                        {"fail", ErrorPolicy::kFail}};
inline constexpr Named<Profile> kProfiles[] = {
    {"pillow", Profile::kPillow}, {"pillow13", Profile::kPillow13}, {"fast", Profile::kFast}};
inline constexpr Named<Share> kShares[] = {{"auto", Share::kAuto}, {"private", Share::kPrivate}};
inline constexpr Named<OpKind> kOpKinds[] = {{"decode", OpKind::kDecode},
                                             {"random_resized_crop", OpKind::kRandomResizedCrop},
                                             {"resize", OpKind::kResize},
                                             {"center_crop", OpKind::kCenterCrop},
                                             {"random_horizontal_flip", OpKind::kRandomHorizontalFlip},
                                             {"normalize", OpKind::kNormalize}};

// 16 hexadecimal digits, small letters: how a number that only names something is written.
std::string hex(std::uint64_t value);

template <class T, std::size_t N>
constexpr std::string_view name_of(const Named<T> (&names)[N], T value) {
    for (const Named<T>& named : names) {
        if (named.value == value) return named.name;
    }
    return names[0].name;
}

}  // namespace sl
