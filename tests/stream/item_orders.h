// Orders of items for the tests, as a client sends them.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "daemon/stream/item_inbox.h"
#include "shm/socket.h"
#include "tests/cmocka_cpp.h"

namespace sl {

inline std::vector<std::uint64_t> words_of(const std::vector<std::uint64_t>& items,
                                           const std::vector<double>& hints) {
    std::vector<std::uint64_t> words = items;
    words.resize(items.size() + hints.size());
    if (!hints.empty()) std::memcpy(words.data() + items.size(), hints.data(), hints.size() * sizeof(double));
    return words;
}

inline sl_msg_items part_of(std::uint64_t count, bool has_hints, std::uint32_t part) {
    auto head = make_message<sl_msg_items>(SL_MSG_ITEMS, 1);
    head.count = count;
    head.has_hints = has_hints ? 1 : 0;
    head.part = part;
    return head;
}

inline Result<MemoryBudget::Share> room_for_all(std::uint64_t) {
    return MemoryBudget::Share();
}

inline Result<std::shared_ptr<const ItemOrder>> sent(const std::vector<std::uint64_t>& items,
                                                     const std::vector<double>& hints = {}) {
    ItemInbox inbox;
    const std::vector<std::uint64_t> words = words_of(items, hints);
    assert_true(
        inbox.add(part_of(items.size(), !hints.empty(), 0), std::as_bytes(std::span(words)), room_for_all));
    return *inbox.take();
}

inline std::shared_ptr<const ItemOrder> order_of(const std::vector<std::uint64_t>& items,
                                                 const std::vector<double>& hints = {}) {
    auto order = sent(items, hints);
    if (!order) fail_msg("%s", order.error().message.c_str());
    return *order;
}

}  // namespace sl
