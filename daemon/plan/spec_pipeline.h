// The pipeline part of a spec: an array of ops becomes a Pipeline, or an error that names op and key.
//
// Used by the spec parser only. Pure; the first error goes to `Problem`.
#pragma once

#include "daemon/plan/spec_reader.h"

namespace sl {

// Fills ops, op_count, output size, channels and normalisation. `value` null (no key) means [decode]. The
// other fields of `pipeline` must be set already: the output is held against max_pixels.
//
// A decode in front is implied if it is absent; an op's slot is its index with that decode counted, so that a
// spec and its canonical form draw the same numbers. What a Geometry cannot express is refused here: more
// than one op that scales, a crop or flip before it, more than one center_crop.
void read_pipeline(const Json* value, Pipeline& pipeline, Problem& problem);

}  // namespace sl
