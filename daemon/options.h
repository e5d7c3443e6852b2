// The daemon's command line. Called once by main.
#pragma once

#include <optional>
#include <string>

#include "daemon/config.h"

namespace sl {

struct Options {
    Config config;
    std::string config_file;
    Config in_file;  // defaults and the file alone, without the command line
    bool check_config = false;
    bool self_test = false;
    bool is_private = false;
    bool detach = false;
    int listen_fd = -1;
    std::string worker_program;  // default: beside this program
    std::string log_level = "info";
    bool log_level_is_given = false;  // on the command line: it stays
    std::optional<int> exit_status;   // set: nothing to run (help, version, a mistake), leave with this
};

Options parse_options(int argc, char** argv);

// Where this program lies, and the programs that are installed with it.
std::string program_folder();

}  // namespace sl
