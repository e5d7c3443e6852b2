// Fuzzes the spec parser: whatever a client sends, the answer is a spec or one sentence, and a spec survives
// the round trip through its own document.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "daemon/plan/spec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    auto spec = sl::parse_spec({reinterpret_cast<const char*>(data), size});
    if (!spec) return 0;
    auto again = sl::parse_spec(sl::to_json(*spec));
    if (!again || !(*again == *spec)) std::abort();
    return 0;
}
