// The parts of a spec that only a stream of items has: its dataset and its rows.
//
// Used by the spec parser only. Pure; the first error goes to `Problem`.
#pragma once

#include "daemon/plan/spec_reader.h"

namespace sl {

// Fills kind and items from the dataset; there are no parts and no pipeline.
void read_items(const Json& dataset, Spec& spec, Problem& problem);

// Fills the items' rows; `value` null (no key) is an error.
void read_rows(const Json* value, ItemsSpec& items, Problem& problem);

// Fills in how batches are collated, after the rows; `value` null: they are not.
void read_collate(const Json* value, ItemsSpec& items, Problem& problem);

// Reports keys of the document that say how files become pictures, and what a given order cannot be.
void refuse_for_items(const Json& document, Problem& problem);

}  // namespace sl
