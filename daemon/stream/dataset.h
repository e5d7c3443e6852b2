// A dataset as streams see it: how many samples, where each lies, its label.
//
// Made by a blocking scan on a thread of its own, then constant and safe to read from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "daemon/plan/spec.h"
#include "io/folder_source.h"
#include "shm/error.h"

namespace sl {

class Dataset {
  public:
    // Blocking: walks the file system.
    static Result<std::shared_ptr<const Dataset>> scan(const Spec& spec);

    [[nodiscard]] std::uint64_t size() const { return folder_.size(); }
    [[nodiscard]] std::int64_t label(std::uint64_t id) const { return folder_.label(id); }
    void path(std::uint64_t id, std::string& out) const { folder_.path(id, out); }
    [[nodiscard]] const FolderSource& folder() const { return folder_; }

  private:
    explicit Dataset(FolderSource folder) : folder_(std::move(folder)) {}
    FolderSource folder_;
};

// A number for the format that a file's name suggests: JPEG 1, PNG 2, other 0; only a hint for predictions.
std::uint32_t format_hint(std::string_view path);

}  // namespace sl
