// Room in the folder of cost models: each user has so much of it, and all together so much.
//
// A model's file is named by who learned it (cost_file.h). Beyond a user's bounds its own files make room,
// the ones first that were written longest ago; beyond the folder's the user's who has most. So nobody's
// models go because another has many. Called by cost_file after each write, and blocking; safe in any number
// of processes at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace sl {

struct CostRoom {
    std::size_t files = 0;
    std::uint64_t bytes = 0;
};
inline constexpr CostRoom kRoomOfOneUser{64, std::uint64_t{1} << 30};
inline constexpr CostRoom kRoomOfAll{256, std::uint64_t{2} << 30};

// Also takes away what a killed writer left behind. What cannot be removed stays.
void make_cost_room(const std::string& folder);

}  // namespace sl
