#pragma once

#include <cstdint>
#include <string>
#include <tensorbus/played.hpp>
#include <vector>

#include "tensorbus/recording/recording.hpp"

namespace tensorbus::bus {

// Returns the name on which a recorded topic is published.
std::string played_name(const std::string& topic, const PlayerOptions& options);

// Takes messages that would be published on the topic of the player's own clock out of `order`, and
// logs that. Throws Error(kInvalidArgument) if they are not messages of a clock; the first message
// of each channel that can be read tells.
void leave_out_recorded_clock(const Recording& recording, const PlayerOptions& options,
                              std::vector<std::uint32_t>& order);

}  // namespace tensorbus::bus
