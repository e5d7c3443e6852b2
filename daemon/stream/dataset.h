// A dataset as streams see it: how many samples, where each lies, its label, and which the spec selects.
//
// Made by a blocking scan on a thread of its own, then constant and safe to read from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "daemon/plan/spec.h"
#include "io/folder_source.h"
#include "io/mount.h"
#include "shm/error.h"

namespace sl {

class Dataset {
  public:
    // All samples of a folder. Blocking: walks the file system, or reads a manifest of it
    // (io/folder_source.h).
    static Result<std::shared_ptr<const Dataset>> scan(const std::string& path,
                                                       const FolderOptions& options = {});
    // The part of a whole dataset that a spec asks for. kSpec: it selects nothing, or what is not there.
    static Result<std::shared_ptr<const Dataset>> part(std::shared_ptr<const Dataset> whole,
                                                       const Subset& subset);

    // Of the whole dataset, selected or not; ids are below it.
    [[nodiscard]] std::uint64_t size() const { return folder_.size(); }
    // The samples to deliver; a plan's ids are indices in it.
    [[nodiscard]] const Selection& selection() const { return selection_; }
    // Of what is selected.
    [[nodiscard]] std::uint64_t fingerprint() const { return selection_.fingerprint(folder_.fingerprint()); }
    [[nodiscard]] std::int64_t label(std::uint64_t id) const { return folder_.label(id); }
    void path(std::uint64_t id, std::string& out) const { folder_.path(id, out); }
    [[nodiscard]] const FolderSource& folder() const { return folder_; }
    [[nodiscard]] const Mount& mount() const { return mount_; }  // of its root

  private:
    Dataset(FolderSource folder, Selection selection, const Mount& mount)
        : folder_(std::move(folder)), selection_(std::move(selection)), mount_(mount) {}
    FolderSource folder_;
    Selection selection_;
    Mount mount_;
};

// A number for the format that a file's name suggests: JPEG 1, PNG 2, other 0; only a hint for predictions.
std::uint32_t format_hint(std::string_view path);

}  // namespace sl
