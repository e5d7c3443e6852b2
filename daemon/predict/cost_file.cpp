// See cost_file.h.
#include "daemon/predict/cost_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <span>
#include <system_error>
#include <type_traits>
#include <vector>

#include "daemon/predict/cost_room.h"
#include "io/cache_folder.h"
#include "shm/fd.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sl {

namespace {

namespace fs = std::filesystem;

static_assert(std::is_trivially_copyable_v<CostFileHeader>);
static_assert(std::has_unique_object_representations_v<CostKey>);
static_assert(sizeof(CostFileHeader) == offsetof(CostFileHeader, learned) + sizeof(CostModel::Learned));

constexpr std::size_t kChecksumEnd = offsetof(CostFileHeader, checksum) + sizeof(CostFileHeader::checksum);
constexpr std::size_t kWordsAtOnce = 8192;

class Checksum {
  public:
    Checksum() : state_(XXH3_createState()) { XXH3_64bits_reset(state_); }
    ~Checksum() { XXH3_freeState(state_); }
    Checksum(const Checksum&) = delete;
    Checksum& operator=(const Checksum&) = delete;
    void add(std::span<const std::byte> bytes) { XXH3_64bits_update(state_, bytes.data(), bytes.size()); }
    void add(const CostFileHeader& header) {
        add(std::as_bytes(std::span(&header, 1)).subspan(kChecksumEnd));
    }
    [[nodiscard]] std::uint64_t value() const { return XXH3_64bits_digest(state_); }

  private:
    XXH3_state_t* state_;
};

std::unexpected<Error> io_failure(const std::string& what, int error = errno) {
    return std::unexpected(os_error(Status::kIo, what, error));
}

bool read_whole(int fd, std::span<std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t got = ::read(fd, bytes.data(), bytes.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        bytes = bytes.subspan(static_cast<std::size_t>(got));
    }
    return true;
}

bool write_whole(int fd, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(fd, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return true;
}

// Calls `take(first id, words)` for one piece after the other.
template <class Take>
bool each_piece(std::uint64_t samples, std::vector<SampleHistory::Word>& buffer, Take take) {
    for (std::uint64_t first = 0; first < samples; first += buffer.size()) {
        const std::uint64_t count = std::min<std::uint64_t>(buffer.size(), samples - first);
        if (!take(first, std::span(buffer).first(count))) return false;
    }
    return true;
}

std::string what_is_wrong(const CostFileHeader& header, const CostKey& key) {
    if (std::memcmp(header.magic, CostFileHeader::kMagic, sizeof header.magic) != 0)
        return "it is no cost file";
    if (header.version != CostFileHeader::kVersion || header.header_bytes != sizeof header)
        return "it is of another version";
    return header.key == key ? "" : "it is of another dataset, pipeline or user";
}

// The words go to the file first and the header last, with the checksum of what was written: the history
// may change meanwhile.
bool write_file(int fd, const CostKey& key, const CostModel::Learned& learned, const SampleHistory& history) {
    CostFileHeader header{};
    std::memcpy(header.magic, CostFileHeader::kMagic, sizeof header.magic);
    header.version = CostFileHeader::kVersion;
    header.header_bytes = sizeof header;
    header.key = key;
    header.learned = learned;
    Checksum checksum;
    checksum.add(header);
    if (::lseek(fd, sizeof header, SEEK_SET) < 0) return false;
    std::vector<SampleHistory::Word> buffer(kWordsAtOnce);
    const bool written = each_piece(key.samples, buffer, [&](std::uint64_t first, auto words) {
        history.copy_out(first, words);
        checksum.add(std::as_bytes(words));
        return write_whole(fd, std::as_bytes(words));
    });
    header.checksum = checksum.value();
    return written && ::lseek(fd, 0, SEEK_SET) == 0 && write_whole(fd, std::as_bytes(std::span(&header, 1)));
}

}  // namespace

std::uint64_t pipeline_hash(const Pipeline& pipeline) {
    Pipeline bare = pipeline;  // its numbers leave no gaps between them
    bare.has_normalize = 0;    // the assembler's work
    std::ranges::fill(bare.mean, 0.0F);
    std::ranges::fill(bare.std, 1.0F);
    std::uint32_t ops = 0;
    for (std::uint32_t i = 0; i < std::min(pipeline.op_count, kMaxOps); ++i) {
        if (pipeline.ops[i].kind != OpKind::kNormalize) bare.ops[ops++] = pipeline.ops[i];
    }
    std::fill(bare.ops.begin() + ops, bare.ops.end(), Op{});
    bare.op_count = ops;
    static_assert(sizeof(Op) == 64 && sizeof(Pipeline) == kMaxOps * sizeof(Op) + 64);
    return XXH3_64bits(&bare, sizeof bare);
}

std::string user_cost_folder() {
    return user_cache_path("costs");
}

std::string cost_path(const std::string& folder, const CostKey& key) {
    char learner[24] = "";
    if (key.learner != CostKey::kOwn)
        std::snprintf(learner, sizeof learner, "u%llu-", static_cast<unsigned long long>(key.learner - 1));
    char name[64];
    std::snprintf(name, sizeof name, "/%s%016llx-%016llx", learner,
                  static_cast<unsigned long long>(key.dataset),
                  static_cast<unsigned long long>(key.pipeline));
    return folder + name;
}

Result<KeptCosts> load_costs(const std::string& path, const CostKey& key) {
    UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file && (errno == ENOENT || errno == ENOTDIR)) return fail(Status::kNotFound, "there was none");
    struct stat status = {};
    if (!file || ::fstat(file.get(), &status) != 0) return io_failure("it cannot be opened");
    if (!S_ISREG(status.st_mode)) return fail(Status::kDataset, "it is no file");
    if (status.st_uid != ::geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return fail(Status::kDenied, "others can write it");
    const std::uint64_t bytes = sizeof(CostFileHeader) + key.samples * sizeof(SampleHistory::Word);
    CostFileHeader header;
    if (static_cast<std::uint64_t>(status.st_size) != bytes)
        return fail(Status::kDataset, "its size is wrong");
    if (!read_whole(file.get(), std::as_writable_bytes(std::span(&header, 1))))
        return io_failure("it cannot be read");
    if (auto wrong = what_is_wrong(header, key); !wrong.empty()) return fail(Status::kDataset, wrong);

    KeptCosts kept{header.learned, std::make_unique<SampleHistory>(key.samples)};
    Checksum checksum;
    checksum.add(header);
    std::vector<SampleHistory::Word> buffer(kWordsAtOnce);
    const bool read = each_piece(key.samples, buffer, [&](std::uint64_t first, auto words) {
        if (!read_whole(file.get(), std::as_writable_bytes(words))) return false;
        checksum.add(std::as_bytes(words));
        kept.history->put_back(first, words);
        return true;
    });
    if (!read) return io_failure("it cannot be read");
    if (checksum.value() != header.checksum) return fail(Status::kDataset, "its checksum is wrong");
    return kept;
}

Result<void> save_costs(const std::string& folder, const CostKey& key, const CostModel::Learned& learned,
                        const SampleHistory& history) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) return io_failure("cannot make " + folder, error.value());
    const std::string path = cost_path(folder, key);
    // A name of its own for each process, which has one thread that writes.
    const std::string fresh = path + "." + std::to_string(::getpid()) + ".new";
    ::unlink(fresh.c_str());
    UniqueFd file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return io_failure("cannot create " + fresh);
    if (!write_file(file.get(), key, learned, history) || ::rename(fresh.c_str(), path.c_str()) != 0) {
        const int failed = errno;
        ::unlink(fresh.c_str());
        return io_failure("cannot write " + path, failed);
    }
    make_cost_room(folder);
    return {};
}

}  // namespace sl
