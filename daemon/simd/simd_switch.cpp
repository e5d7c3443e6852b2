#include "daemon/simd/simd_switch.h"

#include <hwy/targets.h>

#include <cstdlib>
#include <string_view>

namespace sl {

bool simd_allowed() {
    static const bool allowed = [] {
        const char* value = std::getenv("SPEEDYLOADER_SIMD");
        if (value == nullptr || std::string_view(value) != "off") return true;
        hwy::DisableTargets(~0LL);  // the scalar target cannot be disabled, so it is what remains
        return false;
    }();
    return allowed;
}

}  // namespace sl
