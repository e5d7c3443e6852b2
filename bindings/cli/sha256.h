// SHA-256 (FIPS 180-4), for `speedyctl run --hash`: two runs gave the same bytes or they did not.
//
// One object, one thread. It checks sameness, it protects nothing: no secret passes through it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace sl::cli {

class Sha256 {
  public:
    // portable: without the processor's SHA instructions even where there are some; the digest is the same.
    explicit Sha256(bool portable = false);

    void reset();
    void update(std::span<const std::byte> bytes);

    // 64 hexadecimal digits of everything since the last reset; the object is reset.
    std::string finish();

  private:
    void compress(const std::byte* blocks, std::size_t count);

    bool portable_;
    std::array<std::uint32_t, 8> state_{};
    std::array<std::byte, 64> pending_{};
    std::size_t pending_bytes_ = 0;
    std::uint64_t total_bytes_ = 0;
};

}  // namespace sl::cli
