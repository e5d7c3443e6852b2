// Orders of items for the tests, as a client makes them: a sealed memfd.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "daemon/stream/item_order.h"
#include "shm/fd.h"
#include "tests/cmocka_cpp.h"

namespace sl {

constexpr int kAllSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

inline UniqueFd order_memory(const std::vector<std::uint64_t>& items, const std::vector<double>& hints = {},
                             int seals = kAllSeals) {
    UniqueFd fd(::memfd_create("items", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    const std::size_t bytes = items.size() * sizeof(std::uint64_t);
    assert_int_equal(::write(fd.get(), items.data(), bytes), bytes);
    const std::size_t more = hints.size() * sizeof(double);
    assert_int_equal(::write(fd.get(), hints.data(), more), more);
    assert_int_equal(::fcntl(fd.get(), F_ADD_SEALS, seals), 0);
    return fd;
}

inline std::shared_ptr<const ItemOrder> order_of(const std::vector<std::uint64_t>& items,
                                                 const std::vector<double>& hints = {}) {
    auto order = ItemOrder::take(order_memory(items, hints).get(), items.size(), !hints.empty());
    if (!order) fail_msg("%s", order.error().message.c_str());
    return *order;
}

}  // namespace sl
