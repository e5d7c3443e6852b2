#include "daemon/stream/item_inbox.h"

#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "daemon/plan/items.h"

namespace sl {

namespace {
constexpr std::uint64_t kWord = sizeof(std::uint64_t);
// Memory for all of an order is taken when so much of it has come: to promise much costs a client nothing.
constexpr std::uint64_t kPartThatCounts = 64;
}  // namespace

std::uint64_t ItemInbox::wanted() const {
    return count_ * (has_hints_ ? 2 : 1);
}

void ItemInbox::refuse(Error why) {
    begun_ = true;
    error_ = std::move(why);
    words_ = {};
    room_ = {};
}

void ItemInbox::begin(const sl_msg_items& head, const Reserve& reserve) {
    *this = {};
    begun_ = true;
    count_ = head.count;
    has_hints_ = head.has_hints != 0;
    if (count_ == 0 || count_ > kMaxItems) {
        return refuse({Status::kInvalidArgument,
                       "an order of " + std::to_string(count_) + " items, allowed: 1 to " +
                           std::to_string(kMaxItems) + "; open a longer one as several streams",
                       0});
    }
    auto room = reserve(wanted() * kWord);
    if (!room) return refuse(std::move(room).error());
    room_ = std::move(*room);
}

bool ItemInbox::make_room(std::uint64_t words) {
    if (words <= words_.capacity()) return true;
    const bool counts = words * kPartThatCounts >= wanted();
    try {
        words_.reserve(counts ? wanted() : 2 * words);
    } catch (const std::bad_alloc&) {
        refuse({Status::kNoMemory, "no memory for an order of " + std::to_string(count_) + " items", 0});
        return false;
    }
    return true;
}

bool ItemInbox::add(const sl_msg_items& head, std::span<const std::byte> bytes, const Reserve& reserve) {
    // A part 0 in the middle is a client's that gave the last one up.
    if (head.part == 0 && begun_ && (error_ || is_whole())) return false;
    if (head.part == 0) begin(head, reserve);
    if (error_) return true;
    const bool fits = begun_ && head.part == next_part_ && head.count == count_ &&
                      (head.has_hints != 0) == has_hints_ && bytes.size() % kWord == 0;
    if (!fits) {
        refuse({Status::kProtocol,
                "part " + std::to_string(head.part) + " of an order of items does not follow", 0});
        return true;
    }
    const std::size_t words = bytes.size() / kWord;
    if (words > wanted() - words_.size()) {
        refuse({Status::kInvalidArgument,
                "the order of items has more than " + std::to_string(wanted() * kWord) +
                    " bytes, as its count says",
                0});
        return true;
    }
    ++next_part_;
    const std::size_t had = words_.size();
    if (!make_room(had + words)) return true;
    words_.resize(had + words);
    if (words > 0) std::memcpy(words_.data() + had, bytes.data(), bytes.size());
    return true;
}

std::optional<Result<std::shared_ptr<const ItemOrder>>> ItemInbox::take() {
    ItemInbox taken = std::exchange(*this, ItemInbox());
    if (!taken.begun_) return std::nullopt;
    if (taken.error_) return std::unexpected(*std::move(taken.error_));
    if (!taken.is_whole()) {
        return fail(Status::kInvalidArgument,
                    "the order of items has " + std::to_string(taken.words_.size() * kWord) +
                        " bytes, allowed: " + std::to_string(taken.wanted() * kWord) + ", as its count says");
    }
    return ItemOrder::of(std::move(taken.words_), taken.count_, std::move(taken.room_));
}

}  // namespace sl
