#include "daemon/predict/sample_history.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace sl {

namespace {

// An entry, from the low bit on: width 16, height 16, tag of the file's size 14, residual 9 (two's
// complement, in steps of 1/64), format 4, progressive 1, lane 2, seen 2. A seen of 0 is no entry.
constexpr unsigned kHeightAt = 16;
constexpr unsigned kTagAt = 32;
constexpr unsigned kResidualAt = 46;
constexpr unsigned kFormatAt = 55;
constexpr unsigned kProgressiveAt = 59;
constexpr unsigned kLaneAt = 60;
constexpr unsigned kSeenAt = 62;
constexpr std::uint64_t kTagMask = (1U << 14) - 1;
constexpr std::uint64_t kResidualMask = (1U << 9) - 1;
constexpr std::uint32_t kMostSeen = 3;
constexpr double kResidualSteps = 64;
constexpr double kMostResidual = 255 / kResidualSteps;  // a factor of 54

// How much of a new error a residual takes: what is left is noise of the machine, measured at about a tenth.
constexpr double kTake[] = {0.7, 0.45, 0.3, 0.3};
// An error that large is the sample's own nature, or an accident; noise it is not. Taken whole the first
// time, and given back as fast if the second time shows that it was an accident.
constexpr double kNotNoise = 0.5;
constexpr double kTakeSurprise = 0.6;

// Files change their size by little more often than by a multiple of something.
std::uint64_t tag_of(std::uint64_t bytes) {
    return (bytes * 0x9E3779B97F4A7C15U) >> 50;
}

std::uint64_t side(std::uint32_t pixels) {
    return std::min<std::uint32_t>(pixels, 0xFFFF);
}

SampleHistory::Word pack(const SampleRecord& record, std::uint64_t tag) {
    const double steps = std::clamp(record.residual, -kMostResidual, kMostResidual) * kResidualSteps;
    const auto residual = static_cast<std::uint64_t>(std::lround(steps)) & kResidualMask;
    return side(record.picture.width) | side(record.picture.height) << kHeightAt | tag << kTagAt |
           residual << kResidualAt | std::uint64_t{record.picture.format % kFormats} << kFormatAt |
           std::uint64_t{record.picture.progressive} << kProgressiveAt |
           std::uint64_t{std::min(record.lane, 2U)} << kLaneAt |
           std::uint64_t{std::min(record.seen, kMostSeen)} << kSeenAt;
}

SampleRecord unpack(SampleHistory::Word word) {
    const auto bits = [word](unsigned at, std::uint64_t mask) {
        return static_cast<std::uint32_t>(word >> at & mask);
    };
    auto residual = static_cast<std::int32_t>(bits(kResidualAt, kResidualMask));
    if (residual > 255) residual -= 512;
    return {.picture = {.format = bits(kFormatAt, 15),
                        .width = bits(0, 0xFFFF),
                        .height = bits(kHeightAt, 0xFFFF),
                        .progressive = bits(kProgressiveAt, 1) != 0},
            .residual = residual / kResidualSteps,
            .lane = std::min(bits(kLaneAt, 3), 2U),
            .seen = bits(kSeenAt, 3)};
}

}  // namespace

SampleHistory::SampleHistory(std::uint64_t samples) {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 40;
    if (samples == 0 || samples > kMost) return;
    void* memory = ::mmap(nullptr, samples * sizeof(Word), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return;
    words_ = static_cast<Word*>(memory);
    samples_ = samples;
}

SampleHistory::~SampleHistory() {
    if (words_ != nullptr) ::munmap(words_, samples_ * sizeof(Word));
}

std::unique_ptr<SampleHistory> SampleHistory::grown(const SampleHistory& from, std::uint64_t samples) {
    auto made = std::make_unique<SampleHistory>(samples);
    made->put_back(0, {from.words_, from.samples_});
    return made;
}

std::optional<SampleRecord> SampleHistory::find(std::uint64_t id, std::uint64_t bytes) const {
    if (id >= samples_) return std::nullopt;
    const Word word = load(id);
    if (word >> kSeenAt == 0 || (word >> kTagAt & kTagMask) != tag_of(bytes)) return std::nullopt;
    return unpack(word);
}

void SampleHistory::learn(std::uint64_t id, std::uint64_t bytes, const Picture& picture, double log_error) {
    if (id >= samples_ || !std::isfinite(log_error)) return;
    SampleRecord record = find(id, bytes).value_or(SampleRecord{});
    const double surprise = log_error - record.residual;
    double take = kTake[record.seen];
    if (std::abs(surprise) > kNotNoise) take = record.seen == 0 ? 1 : kTakeSurprise;
    record.residual += take * surprise;
    record.picture = picture;
    ++record.seen;
    if (load(id) >> kSeenAt == 0) ++known_;
    store(id, pack(record, tag_of(bytes)));
}

void SampleHistory::set_lane(std::uint64_t id, std::uint64_t bytes, std::uint32_t lane) {
    if (id >= samples_) return;
    auto record = find(id, bytes);
    if (!record || record->lane == lane) return;
    record->lane = lane;
    store(id, pack(*record, tag_of(bytes)));
}

std::uint64_t SampleHistory::resident_bytes() const {
    if (words_ == nullptr) return 0;
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> pages((samples_ * sizeof(Word) + page - 1) / page);
    if (::mincore(words_, samples_ * sizeof(Word), pages.data()) != 0) return 0;
    return page * static_cast<std::uint64_t>(
                      std::ranges::count_if(pages, [](unsigned char state) { return (state & 1) != 0; }));
}

void SampleHistory::copy_out(std::uint64_t first, std::span<Word> words) const {
    for (std::size_t i = 0; i < words.size() && first + i < samples_; ++i)
        words[i] = load(first + i);
}

void SampleHistory::put_back(std::uint64_t first, std::span<const Word> words) {
    for (std::size_t i = 0; i < words.size() && first + i < samples_; ++i) {
        if (words[i] >> kSeenAt == 0 || load(first + i) >> kSeenAt != 0) continue;
        store(first + i, words[i]);
        ++known_;
    }
}

}  // namespace sl
