// Scans of datasets, off the conductor's thread; what a spec leaves to its pictures is filled in on the way.
//
// A scan blocks on directories, so each runs on a thread of its own, a few at a time; the others wait in
// order. One that takes long, for its mount may never answer, holds nobody else up: it does not count among
// the few, as long as its user has not many of them. A user none of whose scans runs waits for nobody's.
// However many ask for a folder at once, it is listed once: whoever comes before its scan begins
// joins it, whoever comes later waits for it and then has it looked at again (io/witness.h), because a file
// made meanwhile may be missing from it. What it made is shared as long as somebody has it. The result comes
// back to the loop's thread. A scan whose askers have all gone is not begun, or its result dropped.
// Destroying the queue drops those that wait and waits for those under way. A thread that cannot be made and
// memory that runs out are the scan's error. A mix asks for each of its folders, as if they were several; it
// is answered when all are there, or with the first error.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/broker/picture_size.h"
#include "daemon/observe/status.h"
#include "daemon/pool/event_loop.h"
#include "daemon/quarantine/quarantine.h"
#include "daemon/stream/dataset.h"

namespace sl {

class ScanQueue {
  public:
    struct Options {
        WorkerProgram worker_program;  // for pipelines whose size is the first picture's
        std::string manifest_folder;   // where scans are kept; empty: nowhere
        Quarantine* quarantine;        // lives longer; each scan has it look at its file, as scans may block
    };
    struct Scanned {
        std::shared_ptr<const Dataset> dataset;
        Spec spec;  // with the output's size, where the spec left it to the first picture
    };
    using Found = Result<Scanned>;
    using Done = std::function<void(Found)>;

    static Result<std::unique_ptr<ScanQueue>> create(EventLoop& loop, Options options);
    ~ScanQueue();
    // Drops the scans that wait and waits so long for those under way; false if some is not done.
    bool finish(std::chrono::milliseconds grace);

    // Calls `done` on the loop's thread, later or at once, if `asker`, who is this user's, still exists then.
    // `reaches`: of the spec's parts, whose user asks; what is scanned for one user serves no other.
    using Reaches = std::vector<std::shared_ptr<const Reach>>;
    void scan(const Spec& spec, uid_t uid, Reaches reaches, std::weak_ptr<const void> asker, Done done);

    // On the loop's thread: scans that wait or run; how many listed directories, or found an earlier one
    // good.
    [[nodiscard]] std::vector<ScanStatus> status() const;
    [[nodiscard]] std::uint64_t made() const { return made_; }
    [[nodiscard]] std::uint64_t recalled() const { return recalled_; }

  private:
    ScanQueue(EventLoop& loop, Options options) : loop_(loop), options_(std::move(options)) {}
    // One call of scan(), until it is answered.
    struct Request {
        Spec spec;
        uid_t uid = 0;
        std::weak_ptr<const void> asker;
        Reaches reaches;                                      // of its parts
        Done done;                                            // empty once called
        std::vector<std::shared_ptr<const Dataset>> folders;  // of the spec's parts
        std::size_t missing = 0;                              // scans that it waits for
        [[nodiscard]] bool wanted() const { return done && !asker.expired(); }
        void answer(Found found) {
            if (wanted()) std::exchange(done, nullptr)(std::move(found));
        }
    };
    using Asker = std::shared_ptr<Request>;
    // What a job's thread makes; a dataset, or with one given, the size of its first picture.
    struct Made {
        std::shared_ptr<const Dataset> dataset;
        PictureSize size;
    };
    struct Job {
        std::string path;
        std::string key;                         // key_of(path, reach); empty: no scan of a folder
        std::shared_ptr<const Reach> reach;      // none: the daemon's own
        std::shared_ptr<const Manifest> known;   // of a dataset that somebody has
        std::shared_ptr<const Dataset> dataset;  // set: scanned already, its picture size is wanted
        std::list<Asker> askers;                 // the loop's thread's
        ScanProgress progress;
        std::thread thread;
        std::chrono::steady_clock::time_point began;
        std::optional<Result<Made>> made;    // written by the thread, before `finished`
        std::atomic<bool> finished = false;  // release by the thread, acquire by the loop's
    };
    // What a scan is the same by: the folder and who sees it.
    static std::string key_of(const std::string& path, const Reach* reach);
    Job& job_for(const std::string& path, const std::shared_ptr<const Reach>& reach);
    [[nodiscard]] std::optional<Error> too_many(uid_t uid, const Spec& spec, const Reaches& reaches) const;
    [[nodiscard]] bool is_being_scanned(const Job& wanted) const;
    [[nodiscard]] std::list<Job>::iterator next_to_start();
    [[nodiscard]] std::size_t running_for(const Job& wanted) const;
    [[nodiscard]] std::size_t lately_started() const;
    void look_again();
    void drop_unwanted();
    [[nodiscard]] Result<Made> work(Job& job) const;
    [[nodiscard]] Result<Made> guarded(Job& job) const;
    void start_waiting();
    void deliver();
    void remember(const Job& job);
    void answer(Job& job);
    void gather(const Asker& asker, const Job& job);
    static void refuse(const Job& job, const Error& error);

    EventLoop& loop_;
    const Options options_;
    UniqueFd event_;
    std::list<Job> waiting_;  // both lists belong to the loop's thread; a job moves from one to the other
    std::list<Job> running_;
    std::map<std::string, std::weak_ptr<const Manifest>> known_;  // by key
    std::optional<EventLoop::TimerId> next_look_;  // whether a scan under way has become a long one
    std::uint64_t made_ = 0;
    std::uint64_t recalled_ = 0;
};

}  // namespace sl
