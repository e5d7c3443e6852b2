// Every format but JPEG, BMP and PNM, through libvips, from memory.
//
// Called by Decoder; one per worker, not thread-safe. start_codecs() runs once per process, before the
// sandbox closes: libvips loads its modules there. Loaders are named by the sniffed format, so content can
// never reach one that was not meant; those that libvips itself marks as untrusted are blocked besides. Rows
// are pulled on the calling thread, top to bottom, so libvips starts no thread; libwebp alone starts one per
// lossy picture, so the sandbox lets threads start. No file is opened after start_codecs().
//
// What comes out: frame or page 0; alpha dropped, not blended, as Pillow's convert("RGB") does; palettes,
// grey and 1 bit spread to RGB; 16 bits to 8 as round(v / 257); no colour management, whatever profile is
// embedded. A GIF's transparent pixels are black (libvips does not keep the colour under them).
// Floating-point and 32-bit pictures are `unsupported_dtype`. The whole picture is read whatever the box, so
// a damaged file fails for every draw alike.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "daemon/worker/decode/image.h"
#include "shm/error.h"

struct _VipsImage;

namespace sl {

// Starts libvips with its cache off and one thread. Once per process, before any GenericDecoder; a second
// call does nothing. Fails with the library's sentence.
Result<void> start_codecs();

// The formats that this build decodes, with their libraries: "jpeg (libjpeg-turbo 2.1.5), bmp, ...".
std::string describe_codecs();

class GenericDecoder {
  public:
    GenericDecoder();
    ~GenericDecoder();

    // Reads the header. `bytes` must stay until close().
    SampleResult<ImageInfo> open(std::span<const std::byte> bytes, ImageFormat format);

    // Decodes the opened picture; `channels` is 1 or 3. Rows are packed.
    SampleResult<Region> decode(const Box& box, std::uint32_t channels);

    void close();

  private:
    struct CloseImage {
        void operator()(_VipsImage* image) const;
    };
    std::unique_ptr<_VipsImage, CloseImage> image_;
    ImageFormat format_ = ImageFormat::kUnknown;
    std::span<const std::byte> bytes_;
    Scratch rows_;
    Scratch narrow_;  // a row of a 16-bit picture as 8 bits
    Scratch colour_;  // a row on its way from RGB to grey
};

}  // namespace sl
