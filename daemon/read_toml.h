// A configuration file's text, checked for what its parser does not survive.
//
// Called by config.cpp at start and when the configuration is read again. kIo: it cannot be read;
// kInvalidArgument with file and line.
#pragma once

#include <string>

#include "shm/error.h"

namespace sl {

Result<std::string> read_toml(const std::string& path);

}  // namespace sl
