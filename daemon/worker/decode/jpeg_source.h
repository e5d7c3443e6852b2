// libjpeg's two ends that face us: where its bytes come from and where its complaints go.
//
// libjpeg reports a fatal error by leaving through longjmp. That is confined to JpegSession::guarded(): the
// body it runs, and everything below, must hold no object with a destructor. Used only by jpeg.cpp; one
// session per worker thread, reused for every picture.
//
// Which complaints are fatal, and why:
// - The entropy-coded data meet a marker too early (JWRN_HIT_MARKER): libjpeg would fill the rest with flat
//   colour. Where the input ended it is `truncated`; at a marker other than RSTn it is `corrupt`. At an RSTn
//   only one restart segment is lost and the decoder is in step again behind it: a warning.
// - A code that no Huffman table holds, or a bad arithmetic code: `corrupt`, since what follows is noise.
// - Everything else that libjpeg calls a warning (bytes between segments, odd version numbers, resynchronised
//   restart markers) leaves the pixels as every other libjpeg program shows them: counted.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <span>

// clang-format off: jpeglib.h uses size_t and FILE without including what defines them
#include <jpeglib.h>
// clang-format on

#include "shm/error.h"

namespace sl {

class JpegSession {
  public:
    JpegSession();
    ~JpegSession();
    JpegSession(const JpegSession&) = delete;
    JpegSession& operator=(const JpegSession&) = delete;

    [[nodiscard]] jpeg_decompress_struct& library() { return library_; }
    [[nodiscard]] bool usable() const { return created_; }

    // Points the library at `bytes` and forgets everything about the picture before.
    void start(std::span<const std::byte> bytes);

    // Runs body(); false if libjpeg (or stop()) left it early, then error() says why.
    template <class Body>
    bool guarded(Body&& body) {
        return run(&call<Body>, &body);
    }

    // Leaves guarded() with a typed error. Never returns. `message` must be a literal.
    [[noreturn]] void stop(SampleErrorKind kind, const char* message);

    // True once the library has asked for bytes past the end; it was given an end-of-image marker instead.
    [[nodiscard]] bool input_ended() const { return ended_; }
    [[nodiscard]] std::uint32_t warnings() const { return warnings_; }
    [[nodiscard]] std::size_t position() const { return bytes_.size() - source_.bytes_in_buffer; }
    [[nodiscard]] SampleError error() const;

  private:
    template <class Body>
    static void call(void* body) {
        (*static_cast<std::remove_reference_t<Body>*>(body))();
    }
    bool run(void (*body)(void*), void* context);

    static JpegSession& of(j_common_ptr library) { return *static_cast<JpegSession*>(library->client_data); }
    static void on_error(j_common_ptr library);
    static void on_message(j_common_ptr library, int level);
    static void on_progress(j_common_ptr library);
    static void on_nothing(j_decompress_ptr) {}
    static boolean on_fill(j_decompress_ptr library);
    static void on_skip(j_decompress_ptr library, long count);

    jpeg_decompress_struct library_{};
    jpeg_error_mgr errors_{};
    jpeg_source_mgr source_{};
    jpeg_progress_mgr progress_{};
    std::jmp_buf escape_{};
    std::span<const std::byte> bytes_;
    bool created_ = false;
    bool ended_ = false;
    std::uint32_t warnings_ = 0;
    SampleErrorKind kind_ = SampleErrorKind::kNone;
    std::size_t failed_at_ = 0;
    char message_[JMSG_LENGTH_MAX] = {};
};

}  // namespace sl
