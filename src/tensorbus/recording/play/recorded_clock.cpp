#include "tensorbus/recording/play/recorded_clock.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "tensorbus/platform/log.hpp"

namespace tensorbus::recording {
namespace {

// Returns true for a message {"time_ns": int, "rate": ..., "paused": ...}; the last two fields may
// be missing.
bool is_of_clock(const bus::Sample& sample) {
  const Value fields = sample.fields();
  const Value* time = fields.find("time_ns");
  if (time == nullptr || !time->is<std::int64_t>()) return false;
  return std::ranges::all_of(fields.as<Value::Map>(), [](const auto& field) {
    return field.first == "time_ns" || field.first == "rate" || field.first == "paused";
  });
}

}  // namespace

std::string played_name(const std::string& topic, const PlayerOptions& options) {
  const auto other = options.remap.find(topic);
  return other == options.remap.end() ? topic : other->second;
}

void leave_out_recorded_clock(const Recording& recording, const PlayerOptions& options,
                              std::vector<std::uint32_t>& order) {
  const tensor::mcap::Contents& contents = recording.contents();
  std::set<std::uint16_t> channels;
  for (const auto& [id, channel] : contents.channels)
    if (played_name(channel.topic, options) == options.clock) channels.insert(id);
  const auto channel_of = [&](std::uint32_t number) { return contents.messages[number].channel; };
  const auto left_out = std::ranges::stable_partition(
      order, [&](std::uint32_t number) { return !channels.contains(channel_of(number)); });
  std::map<std::uint16_t, bool> is_clock;  // channels with a readable message
  for (const std::uint32_t number : left_out) {
    if (is_clock.contains(channel_of(number))) continue;
    try {
      is_clock.emplace(channel_of(number), is_of_clock(recording.sample(number)));
    } catch (const Error&) {  // damaged: not published anyway
    }
  }
  if (std::ranges::any_of(is_clock, [](const auto& one) { return !one.second; }))
    throw Error(Code::kInvalidArgument,
                "clock: the recording has data on topic '" + options.clock +
                    "' that is not a clock: choose another topic for the clock, or remap the "
                    "recorded topic");
  if (left_out.empty()) return;
  const std::string text = "player: clock: the recorded clock on topic '" + options.clock +
                           "' is left out, because this player publishes its own clock there";
  platform::log(platform::LogLevel::kWarning, text.c_str());
  order.erase(left_out.begin(), left_out.end());
}

}  // namespace tensorbus::recording
