// Makes any use of a finished picture's libjpeg objects fault at once.
//
// Link fenced_jpeg.cpp and -Wl,--wrap=jpeg_CreateDecompress. Then every decompressor of the program takes its
// per-picture objects from pages of their own, and when libjpeg frees a picture's objects the pages stay
// mapped without any access. A pointer that outlives its picture, in libjpeg or in our use of it, ends the
// program by SIGSEGV where malloc would mostly hide it, also where libjpeg itself is built without a
// sanitizer. Sample buffers stay with libjpeg's allocator. Not thread-safe.
#pragma once

#include <cstdint>

namespace sl::test {

// Pictures whose pages have been closed since the program began: zero means the fence is not linked in.
std::uint64_t fenced_pictures();

}  // namespace sl::test
