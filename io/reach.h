// What one user may reach beneath one root: the way by which the daemon opens files for users that are not
// its own.
//
// Made by the broker for a foreign user (daemon/broker/rights.h), shared by the scan, the reader and the
// picture-size look; constant afterwards and safe on any thread. All calls block. A path is walked from the
// root's descriptor, one name after another, so that whatever is renamed or replaced by a link meanwhile,
// each folder that is passed and the file that is opened are the very ones that were looked at. Links are
// followed as long as they stay beneath the root. The user must be able to search every folder on the way,
// the root included, and to read what is opened, by the mode bits of owner, group and others; access control
// lists are not looked at, and user 0 has no more than its bits. Errors are errno values: EXDEV, the way
// leads out of the root; EPERM, the mode bits do not let the user; EACCES, the system does not let the
// daemon.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shm/error.h"
#include "shm/fd.h"

namespace sl {

// As the kernel told it at accept, never as the client says.
struct User {
    uid_t uid = 0;
    std::vector<gid_t> groups;  // the main one and the others
    [[nodiscard]] bool is_in(gid_t group) const;
};

enum class Permission : mode_t { kRead = 4, kSearch = 1 };

// The rule of owner, group and others: the first that fits decides, also if a later one would allow more.
bool may(const User& user, Permission wanted, const struct stat& status);

// A folder that is served, held open so that its name may change.
struct Root {
    std::string path;  // absolute
    UniqueFd folder;

    // kDenied, kNotFound, kInvalidArgument: no absolute path, or no folder; kUnsupported: no openat2.
    static Result<std::shared_ptr<const Root>> open(const std::string& path);
    // Whether `other`, an absolute path, has this root's names at its beginning. Nothing is looked up.
    [[nodiscard]] bool holds(const std::string& other) const;
};

class Reach {
  public:
    Reach(std::shared_ptr<const Root> root, User user);

    // Opens what `path` (absolute, beneath the root's path) leads to; a descriptor, or a negative errno.
    [[nodiscard]] int open(const char* path, int flags) const;
    // What it leads to, which must be reachable and need not be readable; 0 or an errno.
    [[nodiscard]] int status(const char* path, struct stat& status) const;

    [[nodiscard]] const User& user() const { return user_; }
    [[nodiscard]] const std::string& root() const { return root_->path; }
    // Equal for whoever sees the same: what is kept of one scan may serve another of the same text only.
    [[nodiscard]] const std::string& identity() const { return identity_; }
    // One sentence for people: why `path` could not be opened, for the errors that come from here.
    [[nodiscard]] std::string explain(const std::string& path, int error) const;

  private:
    std::shared_ptr<const Root> root_;
    User user_;
    std::string identity_;
};

}  // namespace sl
