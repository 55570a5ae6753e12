#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tensorbus/values/device.hpp>
#include <vector>

namespace tensorbus::inline v0 {

// The messages of a recording to play, and how to play them.
struct PlayerOptions {
  std::vector<std::string> topics{};           // recorded names; none: all
  std::map<std::string, std::string> remap{};  // recorded names and the names to use instead
  double rate = 1.0;                           // speed: recorded seconds per second
  bool loop = false;                           // begins again after the last message
  bool paused = false;                         // starts paused
  std::uint64_t begin_ns = 0;         // plays messages recorded from this time on, ns since 1970,
  std::uint64_t end_ns = UINT64_MAX;  // and before this time
  // A topic on which the player publishes the recorded time; empty: none. If a clock was recorded
  // on this topic, it is left out and a line is logged. For other messages that were recorded on
  // it, Player throws Error(kInvalidArgument).
  std::string clock{};
  // Tensors that were published on a GPU are copied to this GPU; empty: they are lent from the
  // file, in host memory. Throws Error(kUnsupported) with the reason if this is not possible here.
  std::optional<Device> device{};
  std::string domain{};
};

struct PlayerStats {
  std::uint64_t messages = 0;      // published
  std::uint64_t left = 0;          // to be published, in the present loop
  std::uint64_t loops = 0;         // finished
  std::uint64_t unreadable = 0;    // left out, because they are damaged
  std::uint64_t bytes_copied = 0;  // of tensors: not aligned in the file, or compressed
  std::uint64_t position_ns = 0;   // recorded time, ns since 1970
  std::uint64_t latest_ns = 0;     // the largest delay of a message
  std::uint64_t late_ns = 0;       // the sum of all delays
  double rate = 1.0;
  bool paused = false;
  bool ended = false;
  std::string error{};  // of the first message that could not be read, or that ended playing
};

}  // namespace tensorbus::inline v0
