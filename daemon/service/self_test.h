// `speedyloaderd --self-test`: is this machine one that the daemon can serve?
//
// Called by main instead of serving. First what only the daemon knows how to make (sealed memory, a reader),
// then `speedyctl self-test`, which streams known pictures through a private daemon of this very program; why
// it is not done in this process: docs/decisions/0025-service.md. One line on stdout for each thing tried.
#pragma once

#include <string>

namespace sl {

// `folder`: where speedyctl and this program lie. The exit status: 0, or 1 if anything failed.
int self_test(const std::string& folder);

}  // namespace sl
