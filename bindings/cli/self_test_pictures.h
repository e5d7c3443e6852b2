// The pictures of `speedyctl self-test`, whose pixels are known without decoding them.
//
// PNG and BMP of a pattern, and a JPEG of one colour, all of one size. Written byte by byte, because nothing
// but the programs under test may be needed. Called by the self-test only; no threads, no failure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sl::cli {

inline constexpr unsigned kTestSide = 16;  // pixels, both ways

using Pixels = std::vector<std::uint8_t>;  // RGB, rows from the top

struct TestPicture {
    std::string name;
    std::string bytes;  // the file's
    Pixels pixels;      // what any decoder must make of it
};

// In the order of their names, which is that of the sample ids.
std::vector<TestPicture> test_pictures();

}  // namespace sl::cli
