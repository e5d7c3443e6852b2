// See self_test_pictures.h.
#include "bindings/cli/self_test_pictures.h"

#include <array>
#include <cstdio>
#include <string_view>

namespace sl::cli {

namespace {

constexpr unsigned kPictures = 12;

// 16 x 16, grey 200, as libjpeg-turbo writes it at quality 75. The colour is that of every pixel to the last
// bit, since one coefficient a block makes it.
constexpr unsigned char kGreyJpeg[] = {
    0xff, 0xd8, 0xff, 0xe0, 0x00, 0x10, 0x4a, 0x46, 0x49, 0x46, 0x00, 0x01, 0x01, 0x00, 0x00, 0x01, 0x00,
    0x01, 0x00, 0x00, 0xff, 0xdb, 0x00, 0x43, 0x00, 0x08, 0x06, 0x06, 0x07, 0x06, 0x05, 0x08, 0x07, 0x07,
    0x07, 0x09, 0x09, 0x08, 0x0a, 0x0c, 0x14, 0x0d, 0x0c, 0x0b, 0x0b, 0x0c, 0x19, 0x12, 0x13, 0x0f, 0x14,
    0x1d, 0x1a, 0x1f, 0x1e, 0x1d, 0x1a, 0x1c, 0x1c, 0x20, 0x24, 0x2e, 0x27, 0x20, 0x22, 0x2c, 0x23, 0x1c,
    0x1c, 0x28, 0x37, 0x29, 0x2c, 0x30, 0x31, 0x34, 0x34, 0x34, 0x1f, 0x27, 0x39, 0x3d, 0x38, 0x32, 0x3c,
    0x2e, 0x33, 0x34, 0x32, 0xff, 0xc0, 0x00, 0x0b, 0x08, 0x00, 0x10, 0x00, 0x10, 0x01, 0x01, 0x11, 0x00,
    0xff, 0xc4, 0x00, 0x15, 0x00, 0x01, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x07, 0xff, 0xc4, 0x00, 0x14, 0x10, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0xda, 0x00, 0x08, 0x01, 0x01,
    0x00, 0x00, 0x3f, 0x00, 0xa4, 0x00, 0xff, 0xd9};
constexpr std::uint8_t kGrey = 200;

void put_big(std::string& to, std::uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8)
        to.push_back(static_cast<char>(value >> shift));
}

void put_little(std::string& to, std::uint32_t value, int bytes) {
    for (int at = 0; at < bytes; ++at)
        to.push_back(static_cast<char>(value >> (8 * at)));
}

std::uint32_t crc32(std::string_view bytes) {
    std::uint32_t crc = 0xFFFFFFFF;
    for (unsigned char byte : bytes) {
        crc ^= byte;
        for (int bit = 0; bit < 8; ++bit)
            crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xEDB88320 : 0);
    }
    return ~crc;
}

std::uint32_t adler32(std::string_view bytes) {
    std::uint32_t a = 1;
    std::uint32_t b = 0;
    for (unsigned char byte : bytes) {
        a = (a + byte) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

void put_chunk(std::string& to, std::string_view type, const std::string& content) {
    put_big(to, static_cast<std::uint32_t>(content.size()));
    const std::string counted = std::string(type) + content;
    to += counted;
    put_big(to, crc32(counted));
}

std::string png(const Pixels& pixels) {
    std::string rows;
    for (unsigned y = 0; y < kTestSide; ++y) {
        rows.push_back('\0');  // no filter
        const auto* row = reinterpret_cast<const char*>(pixels.data()) + std::size_t{y} * kTestSide * 3;
        rows.append(row, kTestSide * 3);
    }
    std::string header;
    put_big(header, kTestSide);
    put_big(header, kTestSide);
    header += std::string("\x08\x02\0\0\0", 5);  // 8 bits, RGB
    std::string packed("\x78\x01\x01", 3);       // zlib, one last block that is stored
    put_little(packed, static_cast<std::uint32_t>(rows.size()), 2);
    put_little(packed, ~static_cast<std::uint32_t>(rows.size()), 2);
    packed += rows;
    put_big(packed, adler32(rows));
    std::string file("\x89PNG\r\n\x1A\n");
    put_chunk(file, "IHDR", header);
    put_chunk(file, "IDAT", packed);
    put_chunk(file, "IEND", "");
    return file;
}

std::string bmp(const Pixels& pixels) {
    constexpr std::uint32_t kHeaders = 54;
    std::string file("BM");
    put_little(file, kHeaders + static_cast<std::uint32_t>(pixels.size()), 4);
    for (const std::uint32_t value : {0U, kHeaders, 40U, kTestSide, kTestSide})
        put_little(file, value, 4);
    put_little(file, 1, 2);   // plane
    put_little(file, 24, 2);  // bits a pixel
    file.append(24, '\0');
    for (unsigned y = kTestSide; y-- > 0;) {
        for (unsigned x = 0; x < kTestSide; ++x) {
            const std::size_t at = (std::size_t{y} * kTestSide + x) * 3;
            for (const std::size_t channel : {2, 1, 0})
                file.push_back(static_cast<char>(pixels[at + channel]));
        }
    }
    return file;
}

// Each picture another one, no two neighbours alike: a row, a column or a channel in the wrong place shows.
Pixels pattern(unsigned number) {
    Pixels pixels;
    for (unsigned y = 0; y < kTestSide; ++y) {
        for (unsigned x = 0; x < kTestSide; ++x) {
            for (unsigned value : {17 * x + number, 17 * y + 3 * number, 5 * x + 11 * y + 7 * number})
                pixels.push_back(static_cast<std::uint8_t>(value));
        }
    }
    return pixels;
}

}  // namespace

std::vector<TestPicture> test_pictures() {
    std::vector<TestPicture> pictures;
    for (unsigned number = 0; number < kPictures; ++number) {
        char name[32];
        const std::array<const char*, 3> kKinds = {"png", "bmp", "jpg"};
        std::snprintf(name, sizeof name, "%02u.%s", number, kKinds[number % 3]);
        Pixels pixels = pattern(number);
        std::string bytes;
        if (number % 3 == 0) {
            bytes = png(pixels);
        } else if (number % 3 == 1) {
            bytes = bmp(pixels);
        } else {
            pixels.assign(pixels.size(), kGrey);
            bytes.assign(reinterpret_cast<const char*>(kGreyJpeg), sizeof kGreyJpeg);
        }
        pictures.push_back({name, std::move(bytes), std::move(pixels)});
    }
    return pictures;
}

}  // namespace sl::cli
