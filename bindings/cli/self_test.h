// The verb `self-test`: a private daemon of its own, known pictures, every byte compared.
//
// Run by `speedyloaderd --self-test`, which has looked at what only a daemon can see, and by people. One line
// on stdout for each thing that was tried, "ok" or "FAIL" first. One thread; it leaves no file and no
// process. Returns 0, or 1 if anything failed.
#pragma once

#include <string>

namespace sl::cli {

// `daemon`: the program to start; empty: the one that any client would.
int self_test(const std::string& daemon);

}  // namespace sl::cli
