// Callbacks of jpeg_source.h.
#include "daemon/worker/decode/jpeg_source.h"

#include <cstring>
#include <string>

// clang-format off: jerror.h needs jpeglib.h first
#include <jerror.h>
// clang-format on

namespace sl {
namespace {

constexpr JOCTET kFakeEnd[2] = {0xFF, JPEG_EOI};

// A progressive file may repeat scans; each costs a pass over all coefficients, so a few kilobytes could keep
// a worker busy for minutes. Real files have about ten.
constexpr int kMaxScans = 500;

SampleErrorKind kind_of(int code) {
    switch (code) {
        case JERR_OUT_OF_MEMORY:
            return SampleErrorKind::kByteBudget;
        case JERR_ARITH_NOTIMPL:
        case JERR_BAD_PRECISION:
        case JERR_CCIR601_NOTIMPL:
        case JERR_COMPONENT_COUNT:
        case JERR_CONVERSION_NOTIMPL:
        case JERR_FRACT_SAMPLE_NOTIMPL:
        case JERR_IMAGE_TOO_BIG:
        case JERR_NOT_COMPILED:
        case JERR_NOTIMPL:
        case JERR_SOF_UNSUPPORTED:
            return SampleErrorKind::kUnsupportedCoding;
        default:
            return SampleErrorKind::kCorrupt;
    }
}

}  // namespace

JpegSession::JpegSession() {
    library_.err = jpeg_std_error(&errors_);
    errors_.error_exit = on_error;
    errors_.emit_message = on_message;
    library_.client_data = this;
    created_ = guarded([this] { jpeg_create_decompress(&library_); });
    source_.init_source = on_nothing;
    source_.fill_input_buffer = on_fill;
    source_.skip_input_data = on_skip;
    source_.resync_to_restart = jpeg_resync_to_restart;
    source_.term_source = on_nothing;
    progress_.progress_monitor = on_progress;
    library_.src = &source_;
    library_.progress = &progress_;
}

JpegSession::~JpegSession() {
    jpeg_destroy_decompress(&library_);
}

void JpegSession::start(std::span<const std::byte> bytes) {
    jpeg_abort_decompress(&library_);
    // The abort frees the colour converter and keeps the pointer; a picture that upsamples and converts in
    // one step makes no new one. jpeg_skip_scanlines before libjpeg-turbo 3.1.2 writes through the pointer
    // all the same, into what may be this picture's Huffman tables by now. (Of such pointers it is the only
    // one: colour maps are never asked for.)
    library_.cconvert = nullptr;
    bytes_ = bytes;
    source_.next_input_byte = reinterpret_cast<const JOCTET*>(bytes.data());
    source_.bytes_in_buffer = bytes.size();
    ended_ = false;
    warnings_ = 0;
    kind_ = SampleErrorKind::kNone;
    message_[0] = 0;
}

// The only frame that setjmp lives in. It reads its parameters once, so nothing it holds can be clobbered.
bool JpegSession::run(void (*body)(void*), void* context) {
    if (setjmp(escape_) != 0) return false;
    body(context);
    return true;
}

void JpegSession::stop(SampleErrorKind kind, const char* message) {
    kind_ = kind;
    failed_at_ = ended_ ? bytes_.size() : position();
    std::strncpy(message_, message, sizeof message_ - 1);
    std::longjmp(escape_, 1);
}

SampleError JpegSession::error() const {
    if (kind_ == SampleErrorKind::kTruncated) {
        return {kind_,
                "the JPEG data end after " + std::to_string(bytes_.size()) +
                    " bytes, before the picture is complete",
                static_cast<std::int64_t>(failed_at_), 0};
    }
    return {kind_, std::string("JPEG: ") + message_, static_cast<std::int64_t>(failed_at_), 0};
}

void JpegSession::on_error(j_common_ptr library) {
    JpegSession& session = of(library);
    session.errors_.format_message(library, session.message_);
    session.kind_ = session.ended_ ? SampleErrorKind::kTruncated : kind_of(session.errors_.msg_code);
    session.failed_at_ = session.ended_ ? session.bytes_.size() : session.position();
    std::longjmp(session.escape_, 1);
}

void JpegSession::on_message(j_common_ptr library, int level) {
    if (level >= 0) return;  // a trace, not a warning
    JpegSession& session = of(library);
    const int code = session.errors_.msg_code;
    if (code == JWRN_HIT_MARKER) {
        if (session.ended_) session.stop(SampleErrorKind::kTruncated, "");
        const int marker = session.library_.unread_marker;
        if (marker < JPEG_RST0 || marker > JPEG_RST0 + 7) {
            session.stop(SampleErrorKind::kCorrupt, "picture data are missing before the end marker");
        }
    }
    if (code == JWRN_HUFF_BAD_CODE || code == JWRN_ARITH_BAD_CODE) {
        if (session.ended_) session.stop(SampleErrorKind::kTruncated, "");  // what it read is our stand-in
        session.stop(SampleErrorKind::kCorrupt, "damaged entropy-coded data");
    }
    ++session.warnings_;
}

void JpegSession::on_progress(j_common_ptr library) {
    JpegSession& session = of(library);
    if (session.library_.input_scan_number > kMaxScans) {
        session.stop(SampleErrorKind::kCorrupt, "more than 500 scans");
    }
}

boolean JpegSession::on_fill(j_decompress_ptr library) {
    JpegSession& session = of(reinterpret_cast<j_common_ptr>(library));
    session.ended_ = true;
    session.source_.next_input_byte = kFakeEnd;
    session.source_.bytes_in_buffer = sizeof kFakeEnd;
    return TRUE;
}

void JpegSession::on_skip(j_decompress_ptr library, long count) {
    JpegSession& session = of(reinterpret_cast<j_common_ptr>(library));
    if (count <= 0) return;
    if (static_cast<std::size_t>(count) > session.source_.bytes_in_buffer) {
        on_fill(library);
        return;
    }
    session.source_.next_input_byte += count;
    session.source_.bytes_in_buffer -= static_cast<std::size_t>(count);
}

}  // namespace sl
