// The verb `scan`: makes or refreshes a folder's manifest and says what was found. Returns the exit status.
//
// The folder is opened as a stream, which scans it, and closed again. Meanwhile a second connection asks the
// daemon ten times a second how far the scan is, and shows it on stderr if that is a terminal.
#pragma once

#include <string>

namespace sl::cli {

int scan(const std::string& folder, const std::string& socket, bool json);

}  // namespace sl::cli
