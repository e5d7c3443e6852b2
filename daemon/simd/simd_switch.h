// The one switch that turns SIMD off: SPEEDYLOADER_SIMD=off in the environment of the process.
//
// Called by whatever is about to run a SIMD kernel (Resampler, make_normalize_table), so that no
// main program has to remember it. Thread-safe: the environment is read once, at the first call. Cannot fail;
// any other value leaves SIMD on.
#pragma once

namespace sl {

// Applies the switch. Returns false where SIMD is off: Highway's dispatch then takes what every machine of
// this kind has, which on x86-64 is the scalar code.
bool simd_allowed();

}  // namespace sl
