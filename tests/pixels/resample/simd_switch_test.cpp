// The switch that turns SIMD off. A program of its own, because the switch is read once a process.
#include "daemon/simd/simd_switch.h"

#include <hwy/highway.h>

#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "daemon/worker/transform/resample.h"

// Last: its macro `fail` would break the headers above.
extern "C" {
#include <cmocka.h>
}

namespace {

void the_environment_switches_simd_off_for_the_process(void**) {
    ::setenv("SPEEDYLOADER_SIMD", "off", 1);
    const sl::Resampler resampler;  // whoever comes first applies the switch
    const std::int64_t left = hwy::SupportedTargets();
    assert_int_equal(left & (left - 1), 0);  // one level
    assert_int_equal(left & HWY_TARGETS, HWY_STATIC_TARGET);
    assert_false(sl::simd_allowed());
}

void the_switch_is_read_once(void**) {
    ::setenv("SPEEDYLOADER_SIMD", "on", 1);
    assert_false(sl::simd_allowed());
}

}  // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(the_environment_switches_simd_off_for_the_process),
        cmocka_unit_test(the_switch_is_read_once),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
