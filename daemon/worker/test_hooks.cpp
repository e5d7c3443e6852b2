#include "daemon/worker/test_hooks.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <string_view>

namespace sl {

void run_test_hooks(std::span<const std::byte> file) {
    constexpr std::string_view kAbort = "SL-TEST-ABORT";
    if (file.size() >= kAbort.size() && std::memcmp(file.data(), kAbort.data(), kAbort.size()) == 0)
        std::abort();
    static const char* delay = std::getenv("SPEEDYLOADER_TEST_DELAY_US");
    if (delay == nullptr) return;
    static std::minstd_rand random(static_cast<unsigned>(::getpid()));
    ::usleep(static_cast<useconds_t>(random() % (std::strtoul(delay, nullptr, 10) + 1)));
}

}  // namespace sl
