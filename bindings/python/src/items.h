// An order of items from two Python buffers, copied: an opening's thread may outlive the call that began it.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace sl::python {

struct Items {
    std::vector<std::uint64_t> index;
    std::vector<double> hints;  // empty: none
};

// From (index, hints or None), or null from None. Needs the GIL. TypeError: other buffers than contiguous
// ones of uint64 and float64; ValueError: of different lengths.
std::shared_ptr<const Items> take_items(nanobind::handle items);

}  // namespace sl::python
