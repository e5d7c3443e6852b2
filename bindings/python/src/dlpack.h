// DLPack's two exchange structs, as its header (dmlc/dlpack, Apache-2.0) lays them out in versions 0.x
// and 1.x.
//
// Declarations of an ABI that others wrote, kept to what a producer of CPU tensors needs. Consumers are told
// apart by the capsule's name: "dltensor" holds a DLManagedTensor, "dltensor_versioned" the other one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sl::dlpack {

enum DeviceType : std::int32_t { kCpu = 1 };
enum TypeCode : std::uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4 };
enum Flags : std::uint64_t { kReadOnly = 1, kIsCopied = 2 };

inline constexpr std::uint32_t kMajor = 1;
inline constexpr std::uint32_t kMinor = 0;

struct Device {
    std::int32_t device_type;
    std::int32_t device_id;
};

struct DataType {
    std::uint8_t code;
    std::uint8_t bits;
    std::uint16_t lanes;
};

struct Tensor {
    void* data;
    Device device;
    std::int32_t ndim;
    DataType dtype;
    std::int64_t* shape;
    std::int64_t* strides;  // elements
    std::uint64_t byte_offset;
};

struct Managed {
    Tensor tensor;
    void* context;
    void (*deleter)(Managed*);  // any thread, with or without the GIL, perhaps after the interpreter's end
};

struct Versioned {
    std::uint32_t major;
    std::uint32_t minor;
    void* context;
    void (*deleter)(Versioned*);
    std::uint64_t flags;
    Tensor tensor;
};

static_assert(sizeof(Tensor) == 48 && offsetof(Tensor, strides) == 32);
static_assert(sizeof(Managed) == 64 && offsetof(Managed, deleter) == 56);
static_assert(sizeof(Versioned) == 80 && offsetof(Versioned, tensor) == 32);

}  // namespace sl::dlpack
