// The dataset part of a spec: kind, folders and what is wanted of them.
//
// Used by the spec parser only. Pure; the first error goes to `Problem`.
#pragma once

#include "daemon/plan/spec_reader.h"

namespace sl {

// Whether the dataset says that it is of this kind.
bool is_kind(const Json* dataset, DatasetKind kind);

// Fills kind, parts, weights and max_pixels, of kind items what read_items() says; `value` null (no key) is
// an error.
void read_dataset(const Json* value, Spec& spec, Problem& problem);

}  // namespace sl
