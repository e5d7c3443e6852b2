// An order of items on its way from a client, part by part (sl_msg_items).
//
// In the messages themselves, not in a memfd of the client's: whoever takes a descriptor has to close it, and
// to close one of a stranger's file system waits for that file system. Its bytes are the user's, in the
// budget, from the first part to the order's end. Owned by a session, on the conductor's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "daemon/stream/item_order.h"
#include "shm/messages.h"

namespace sl {

class ItemInbox {
  public:
    // Asks for room: so many bytes, on the user's account.
    using Reserve = std::function<Result<MemoryBudget::Share>(std::uint64_t bytes)>;

    // Adds a part. False: it begins an order while another one has not been taken. What else is wrong is
    // take()'s error, and the rest of that order is passed over.
    bool add(const sl_msg_items& head, std::span<const std::byte> bytes, const Reserve& reserve);
    // A part that is no whole message.
    void refuse(Error why);

    // The order since the last call, or what is wrong with it; nothing if none began. kInvalidArgument: it is
    // not whole, it has no or too many items, a hint is none; kProtocol: parts that do not belong together;
    // kBudget, kNoMemory.
    std::optional<Result<std::shared_ptr<const ItemOrder>>> take();

  private:
    void begin(const sl_msg_items& head, const Reserve& reserve);
    bool make_room(std::uint64_t words);
    [[nodiscard]] std::uint64_t wanted() const;
    [[nodiscard]] bool is_whole() const { return words_.size() == wanted(); }

    bool begun_ = false;
    std::optional<Error> error_;
    std::uint64_t count_ = 0;
    bool has_hints_ = false;
    std::uint32_t next_part_ = 0;
    std::vector<std::uint64_t> words_;
    MemoryBudget::Share room_;
};

}  // namespace sl
