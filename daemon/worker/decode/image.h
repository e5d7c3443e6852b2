// The words of this folder: what a picture is known to be before its pixels exist, which part of it is
// wanted, and the pixels themselves.
//
// Used by every decoder here and by transform/execute. Plain values, no ownership except Scratch, which
// belongs to one worker thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string_view>

#include "daemon/plan/pipeline.h"

namespace sl {

// Append only: the values travel to the daemon as a cost feature.
enum class ImageFormat : std::uint32_t {
    kUnknown = 0,
    kJpeg,
    kPng,
    kGif,
    kWebp,
    kTiff,
    kBmp,
    kHeic,
    kAvif,
    kPnm,
    kJpeg2000,
    kJpegXl,
};

// "jpeg", "png", ...: the names used in reports and metadata.
std::string_view to_string(ImageFormat format);

// Read from the file's header, before any pixel buffer exists.
struct ImageInfo {
    ImageFormat format = ImageFormat::kUnknown;
    std::uint32_t width = 0;
    std::uint32_t height = 0;
    std::uint32_t components = 0;  // as stored, alpha included
    bool progressive = false;      // JPEG only
};

// Which pixels are wanted and in what form.
struct RegionRequest {
    Box box;                     // must lie inside the picture
    std::uint32_t channels = 3;  // 1: grey by ITU-R 601-2 as Pillow's convert("L"); 3: RGB
    Profile profile = Profile::kPillow;
    std::uint32_t target_width = 0;   // what the box will be resized to; profile fast may shrink while
    std::uint32_t target_height = 0;  // decoding, but never below this
};

// Decoded rows, owned by the decoder and good until its next call. In profile fast the size may be smaller
// than the box; in profile pillow it is exactly the box.
struct Region {
    const std::uint8_t* pixels = nullptr;
    std::size_t stride = 0;  // bytes from row to row
    std::uint32_t width = 0;
    std::uint32_t height = 0;
    std::uint32_t channels = 3;     // as requested: bytes a pixel
    std::uint32_t warnings = 0;     // harmless faults met on the way; the pixels are right
    bool ambiguous_colour = false;  // four components and no Adobe marker: taken as inverted, as Pillow does
};

// A buffer that is kept from sample to sample, so that a worker neither allocates nor clears per sample.
// One giant picture does not stay: above kKeep the buffer shrinks again when far less is asked for.
class Scratch {
  public:
    // At least `bytes`, contents undefined; nullptr if there is no memory.
    [[nodiscard]] std::uint8_t* reserve(std::size_t bytes) {
        const bool oversized = capacity_ > kKeep && bytes < capacity_ / 4;
        if (bytes > capacity_ || oversized) {
            data_.reset();
            capacity_ = 0;
            data_.reset(new (std::nothrow) std::uint8_t[bytes]);
            if (data_) capacity_ = bytes;
        }
        return data_.get();
    }

  private:
    static constexpr std::size_t kKeep = std::size_t{64} << 20;
    std::unique_ptr<std::uint8_t[]> data_;
    std::size_t capacity_ = 0;
};

}  // namespace sl
