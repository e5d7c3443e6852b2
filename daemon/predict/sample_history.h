// What is known of each sample from having decoded it: its picture, and how its cost differs from what the
// features say. 8 bytes a sample, in one flat array by sample id.
//
// Written by the conductor thread; the thread that keeps it as a file (cost_store.h) reads it at the same
// time, word by word. Memory is the kernel's as long as nothing is known of a stretch of 512 samples: ten
// million samples take 80 MB once each has been seen. An entry of a file whose size has changed is void: it
// reads as nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "daemon/predict/cost_features.h"

namespace sl {

// Known of one sample.
struct SampleRecord {
    Picture picture;
    double residual = 0;     // natural logarithm of its cost over what the features predict
    std::uint32_t lane = 0;  // it was last given, 0 to 2
    std::uint32_t seen = 0;  // 1 to 3, which stands for more
};

class SampleHistory {
  public:
    using Word = std::uint64_t;

    // For ids below `samples`. If the kernel gives no address space it remembers nothing.
    explicit SampleHistory(std::uint64_t samples);
    ~SampleHistory();
    // With what is known in another, and room for more.
    static std::unique_ptr<SampleHistory> grown(const SampleHistory& from, std::uint64_t samples);
    SampleHistory(const SampleHistory&) = delete;
    SampleHistory& operator=(const SampleHistory&) = delete;

    [[nodiscard]] std::optional<SampleRecord> find(std::uint64_t id, std::uint64_t bytes) const;
    // Another decode: takes `log_error` (natural logarithm of cost over prediction) into the residual, more
    // of it the less is known.
    void learn(std::uint64_t id, std::uint64_t bytes, const Picture& picture, double log_error);
    void set_lane(std::uint64_t id, std::uint64_t bytes, std::uint32_t lane);

    [[nodiscard]] std::uint64_t samples() const { return samples_; }
    // How many samples there is an entry for.
    [[nodiscard]] std::uint64_t known() const { return known_; }
    // Bytes of memory in use, as the kernel counts them.
    [[nodiscard]] std::uint64_t resident_bytes() const;

    // For the file: a copy of some entries (any thread), and entries put back where nothing is known yet.
    void copy_out(std::uint64_t first, std::span<Word> words) const;
    void put_back(std::uint64_t first, std::span<const Word> words);

  private:
    [[nodiscard]] Word load(std::uint64_t id) const { return __atomic_load_n(words_ + id, __ATOMIC_RELAXED); }
    void store(std::uint64_t id, Word word) { __atomic_store_n(words_ + id, word, __ATOMIC_RELAXED); }

    Word* words_ = nullptr;
    std::uint64_t samples_ = 0;
    std::uint64_t known_ = 0;
};

}  // namespace sl
