// The walk behind scan_folder, for folder_scan.cpp and folder_entries.cpp only. One scan, one thread; see
// folder_scan.h for what it promises and how it fails.
#pragma once

#include <dirent.h>
#include <sys/stat.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "io/folder_scan.h"

namespace sl {

class FolderWalker {
  public:
    FolderWalker(std::string root, ScanProgress* progress, const Reach* reach)
        : root_(std::move(root)), progress_(progress), reach_(reach) {}

    Result<FolderScan> run();

  private:
    struct Visit {
        std::string path;
        std::uint32_t class_folder = FolderScan::kNoClass;
    };
    struct SubDirectories {
        std::vector<std::string> real;
        std::vector<std::string> linked;
    };
    enum class EntryKind { kFile, kDirectory, kLinkedDirectory, kSkipped };
    struct Entry {
        EntryKind kind = EntryKind::kFile;
        SkipReason why = SkipReason::kFailed;  // of kSkipped
    };
    struct Seen {  // of one class folder, to decide whether it is one
        bool entered = false;
        bool readable = true;
        std::uint64_t others = 0;
        std::uint64_t hidden = 0;
    };

    std::optional<Error> enter_ancestors();
    int status_of(const std::string& path, struct stat& status) const;
    Result<SubDirectories> list_root();
    void visit_all();
    void visit(const Visit& visit);
    void note_failure(const Visit& visit, int error);
    int list(const Visit& visit, SubDirectories& found);
    Witness look(int fd, const struct stat& first);
    Entry classify(int directory, const dirent& entry, const Visit& visit);
    void take_entry(int directory, const dirent& entry, const Visit& visit, SubDirectories& found);
    void take_file(const char* name, const Visit& visit);
    void keep_names(const Visit& visit, std::uint64_t first);
    void keep_witness(Witness witness, const std::string& path);
    Seen* seen_in(const Visit& visit);
    void decide_classes();

    std::string root_;
    FolderScan scan_;
    std::set<std::pair<dev_t, ino_t>> entered_;
    std::vector<Visit> real_;   // a stack
    std::deque<Visit> linked_;  // followed when no real directory is left
    std::vector<Seen> seen_;    // per class folder
    ScanProgress* progress_;    // may be null
    const Reach* reach_;        // may be null: the daemon's own
    bool has_waited_ = false;   // for the clock of file times
};

// A name in a directory, both below the root.
std::string below(const std::string& directory, const char* name);
// Why a directory or a link that gave `error` is left out.
SkipReason reason_of(int error);

}  // namespace sl
