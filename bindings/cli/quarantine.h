// The verbs `quarantine list` and `quarantine forgive`: samples of this user that are known to be bad. They
// read and change the file that this user's daemons share, so none need run. One thread; each returns the
// exit status.
#pragma once

#include <string>
#include <vector>

namespace sl::cli {

int list_quarantine(bool json);

// Files, or folders with all below them; `all`: everything. A path that is not in quarantine is an error, and
// nothing is forgiven. Daemons see it when the next stream is opened.
int forgive_quarantine(const std::vector<std::string>& paths, bool all, bool json);

}  // namespace sl::cli
