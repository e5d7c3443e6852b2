// The quarantine: samples whose decoding failed by their own fault, so that no worker tries them again.
//
// The conductor asks find() before it reads a sample and tells remember() when one has failed; both only look
// at memory. A thread of its own writes to the file (quarantine_file.h); scans call refresh(), which takes in
// what speedyctl or another daemon of this user has changed. An entry holds for the same size and time of the
// file, the same version of SpeedyLoader, and, for kinds that depend on the pipeline or the draw, the same of
// these: so a sample fails here exactly when decoding it would have failed, and batches are what they would
// have been. A file that cannot be read or written costs memory over restarts, never a sample; it is logged.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "daemon/plan/pipeline.h"
#include "daemon/quarantine/quarantine_file.h"
#include "shm/error.h"

namespace sl {

class Quarantine {
  public:
    // What a sample is decoded from and as.
    struct Attempt {
        std::uint64_t size = 0;
        std::int64_t mtime_ns = 0;
        const Pipeline& pipeline;
        DrawKey draw;
    };

    // Reads the file. `path` "": nothing is kept beyond this process.
    static std::unique_ptr<Quarantine> open(const std::string& path);
    // Waits a moment for the last write; a file system that does not answer is left to the thread.
    ~Quarantine();

    // How this attempt failed before, if it is known to fail. Drops an entry that the file has outlived.
    std::optional<SampleError> find(const std::string& path, const Attempt& attempt);
    // Kinds that are not the sample's own fault are ignored.
    void remember(const std::string& path, const Attempt& attempt, const SampleError& error);

    // Looks whether somebody else has changed the file. Any thread; blocks on the file system.
    void refresh();

  private:
    struct Change {
        std::string path;
        QuarantineEntry entry;
        bool forget = false;
    };
    struct State {
        std::string path;
        std::mutex mutex;
        QuarantineEntries entries;
        std::string signature;
        std::vector<Change> changes;  // not written yet
        bool has_news = false;        // since the last try to write them
        std::string trouble;          // logged, and not over
        bool stopping = false;
        bool ended = true;  // the thread
        std::condition_variable news;
        std::condition_variable at_end;
    };

    explicit Quarantine(std::shared_ptr<State> state) : state_(std::move(state)) {}
    void start_writer();
    static void write_on(State& state);
    static void keep(State& state, Change change);
    static Result<QuarantineContent> write(State& state, const std::vector<Change>& changes);
    static bool take_in(State& state, Result<QuarantineContent> content);

    std::shared_ptr<State> state_;
};

}  // namespace sl
