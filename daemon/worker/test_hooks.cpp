#include "daemon/worker/test_hooks.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string_view>

namespace sl {

void run_test_hooks(std::span<const std::byte> file) {
    auto begins_with = [&](std::string_view word) {
        return file.size() >= word.size() && std::memcmp(file.data(), word.data(), word.size()) == 0;
    };
    if (begins_with("SL-TEST-ABORT")) std::abort();
    while (begins_with("SL-TEST-HANG"))
        ::poll(nullptr, 0, -1);
    static const char* delay = std::getenv("SPEEDYLOADER_TEST_DELAY_US");
    if (delay == nullptr) return;
    static std::minstd_rand random(static_cast<unsigned>(::getpid()));
    ::usleep(static_cast<useconds_t>(random() % (std::strtoul(delay, nullptr, 10) + 1)));
}

void run_header_hooks(std::span<const std::byte> file) {
    constexpr std::size_t kFirst = 64;
    const std::string_view start(reinterpret_cast<const char*>(file.data()), std::min(file.size(), kFirst));
    if (start.find("SL-TEST-HEADER-ABORT") != std::string_view::npos) std::abort();
    while (start.find("SL-TEST-HEADER-HANG") != std::string_view::npos)
        ::poll(nullptr, 0, -1);
}

}  // namespace sl
