// Whole JPEG files to packed RGB and back (rgb_jpeg.h). libjpeg reports errors by calling back; the only way
// out of the callback is longjmp, so every C++ object lives outside the function that calls setjmp.
#include "rgb_jpeg.h"

#include <jpeglib.h>

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace sl::makers {
namespace {

struct ErrorExit {
    jpeg_error_mgr base;
    std::jmp_buf back;
};

[[noreturn]] void leave(j_common_ptr codec) {
    std::longjmp(reinterpret_cast<ErrorExit*>(codec->err)->back, 1);
}

void say_nothing(j_common_ptr) {}

void set_errors(ErrorExit& errors) {
    jpeg_std_error(&errors.base);
    errors.base.error_exit = leave;
    errors.base.output_message = say_nothing;
}

struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

bool decode(std::FILE* file, RgbImage& image, bool header_only) {
    jpeg_decompress_struct codec;
    ErrorExit errors;
    codec.err = &errors.base;
    set_errors(errors);
    if (setjmp(errors.back)) {
        jpeg_destroy_decompress(&codec);
        return false;
    }
    jpeg_create_decompress(&codec);
    jpeg_stdio_src(&codec, file);
    jpeg_read_header(&codec, TRUE);
    image.width = static_cast<int>(codec.image_width);
    image.height = static_cast<int>(codec.image_height);
    if (!header_only) {
        codec.out_color_space = JCS_RGB;
        jpeg_start_decompress(&codec);
        const std::size_t stride = std::size_t{codec.output_width} * 3;
        image.pixels.resize(stride * codec.output_height);
        while (codec.output_scanline < codec.output_height) {
            JSAMPROW row = image.pixels.data() + stride * codec.output_scanline;
            jpeg_read_scanlines(&codec, &row, 1);
        }
    }
    jpeg_destroy_decompress(&codec);
    return true;
}

// `memory` is libjpeg's growing output buffer, freed by the caller also after an error.
bool encode(const RgbImage& image, int quality, Sampling sampling, bool progressive, unsigned char** memory,
            unsigned long* length) {
    jpeg_compress_struct codec;
    ErrorExit errors;
    codec.err = &errors.base;
    set_errors(errors);
    if (setjmp(errors.back)) {
        jpeg_destroy_compress(&codec);
        return false;
    }
    jpeg_create_compress(&codec);
    jpeg_mem_dest(&codec, memory, length);
    codec.image_width = static_cast<JDIMENSION>(image.width);
    codec.image_height = static_cast<JDIMENSION>(image.height);
    codec.input_components = 3;
    codec.in_color_space = JCS_RGB;
    jpeg_set_defaults(&codec);
    jpeg_set_quality(&codec, quality, TRUE);
    codec.optimize_coding = TRUE;
    const int factor = sampling == Sampling::k420 ? 2 : 1;
    codec.comp_info[0].h_samp_factor = factor;
    codec.comp_info[0].v_samp_factor = factor;
    if (progressive) jpeg_simple_progression(&codec);
    jpeg_start_compress(&codec, TRUE);
    while (codec.next_scanline < codec.image_height) {
        const std::size_t at = std::size_t{codec.next_scanline} * codec.image_width * 3;
        JSAMPROW row = const_cast<JSAMPROW>(image.pixels.data() + at);
        jpeg_write_scanlines(&codec, &row, 1);
    }
    jpeg_finish_compress(&codec);
    jpeg_destroy_compress(&codec);
    return true;
}

}  // namespace

bool read_jpeg(const std::string& path, RgbImage& image) {
    const File file(std::fopen(path.c_str(), "rbe"));
    return file && decode(file.get(), image, false);
}

bool read_jpeg_size(const std::string& path, int& width, int& height) {
    const File file(std::fopen(path.c_str(), "rbe"));
    RgbImage image;
    const bool good = file && decode(file.get(), image, true);
    width = image.width;
    height = image.height;
    return good;
}

bool encode_jpeg(const RgbImage& image, int quality, Sampling sampling, bool progressive,
                 std::vector<std::uint8_t>& bytes) {
    unsigned char* memory = nullptr;
    unsigned long length = 0;
    const bool good = encode(image, quality, sampling, progressive, &memory, &length);
    if (good) bytes.assign(memory, memory + length);
    std::free(memory);
    return good;
}

}  // namespace sl::makers
