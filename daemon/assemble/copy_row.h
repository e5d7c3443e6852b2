// An item's row: its fields are copied from the sample slot, where a guest wrote them, into the batch, but
// for those that it wrote there itself.
//
// Called by assembler threads, and by the conductor where there is next to nothing to copy. Pure functions
// over memory that the caller owns; thread-safe. A guest may still write into its slot: then the row is what
// it is, and nothing else is touched, for the one number that is believed of a slot, an opaque row's length,
// is read once and bounded.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/plan/items.h"

namespace sl {

// The same for all rows of a stream, or for all of them that are written in place.
struct CopyPlan {
    struct Field {
        std::uint64_t from = 0;  // in the sample slot
        std::uint64_t bytes = 0;
        std::uint64_t to = 0;  // of the batch slot: where the first row's begins
    };
    std::vector<Field> fields;
    bool opaque = false;
    std::uint64_t capacity = 0;  // of an opaque row
    std::uint64_t lengths = 0;   // opaque: where in the batch slot the rows' lengths are
};

struct CopyTarget {
    const CopyPlan* plan = nullptr;  // null: the row is no item's
    std::uint8_t* slot = nullptr;    // of the batch
    std::uint32_t row = 0;
};

// `sample` null: a row of zeros. Of an opaque row only its length and so many bytes are written.
void copy_row(const std::uint8_t* sample, const CopyTarget& target);

}  // namespace sl
