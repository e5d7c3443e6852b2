// Items: what a stream over a data set of Python's (or anybody's) own code asks for, and how an item lies in
// a sample slot.
//
// Filled in by the spec parser; read by the stream's layout, the assembler's copies, and whoever tells a
// guest worker where to write. Plain values and pure functions, any thread; nothing fails.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shm/layout.h"

namespace sl {

// Beside the rows a batch has sample_id and valid, and a tensor has four sides, one of them the batch.
inline constexpr std::size_t kMaxRowFields = SL_SHM_MAX_FIELDS;
inline constexpr std::size_t kMaxRowSides = 3;
// Of an item; a batch slot's size is then far from the end of 64 bits.
inline constexpr std::uint64_t kMaxRowBytes = 1ULL << 34;
// The daemon looks at each position of an order once while it opens a stream, which must not take long.
inline constexpr std::uint64_t kMaxItems = 1ULL << 25;

struct RowField {
    std::string name;
    std::uint32_t dtype = SL_SHM_UINT8;  // SL_SHM_*
    std::vector<std::uint64_t> shape;    // of one row
    bool operator==(const RowField&) const = default;
};

struct ItemsSpec {
    std::uint64_t count = 0;  // length of the order, not of the data set
    std::string name;         // of the data set, for people
    std::uint64_t crew = 0;   // whose guests run the items
    std::uint64_t epoch = 0;  // keys the items' random numbers
    bool opaque = false;      // rows are any number of bytes, up to the one field's own
    std::vector<RowField> rows;
    std::uint64_t collate_bytes = 0;  // that a batch which guests collate may take; 0: they do not
    double timeout_s = 0;             // for one item, or batch to collate; 0: none
    bool operator==(const ItemsSpec&) const = default;
};

// Bytes of one element, 1 for a number that is no dtype.
std::uint64_t element_bytes(std::uint32_t dtype);
std::uint64_t row_bytes(const RowField& field);

// Where the fields lie in a slot; slot_bytes is a multiple of SL_SHM_TENSOR_ALIGN.
sl_shm_item_layout item_layout(const ItemsSpec& items);

}  // namespace sl
