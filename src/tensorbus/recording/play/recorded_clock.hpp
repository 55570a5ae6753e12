#pragma once

#include <cstdint>
#include <string>
#include <tensorbus/values/played.hpp>
#include <vector>

#include "tensorbus/recording/recording.hpp"

namespace tensorbus::recording {

// Returns the name under which a recorded topic is published.
std::string played_name(const std::string& topic, const PlayerOptions& options);

// Removes from `order` the messages that would be published on the topic of the player's own clock,
// and logs that. Throws Error(kInvalidArgument) if they are not clock messages; the first readable
// message of each channel determines this.
void leave_out_recorded_clock(const Recording& recording, const PlayerOptions& options,
                              std::vector<std::uint32_t>& order);

}  // namespace tensorbus::recording
