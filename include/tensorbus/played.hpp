#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tensorbus/device.hpp>
#include <vector>

namespace tensorbus::inline v0 {

// What of a recording is played, and how.
struct PlayerOptions {
  std::vector<std::string> topics{};           // as recorded; none: all
  std::map<std::string, std::string> remap{};  // from the recorded name to another
  double rate = 1.0;                           // of recorded time, in that of this machine
  bool loop = false;                           // begins again behind the last message
  bool paused = false;                         // at the beginning
  std::uint64_t begin_ns = 0;                  // of messages recorded from then on, ns since 1970
  std::uint64_t end_ns = UINT64_MAX;           // and before then
  // A topic on which the player publishes the time of the recording; empty: none. A clock that was
  // recorded there is left out, with a line in the log; other messages there are
  // Error(kInvalidArgument).
  std::string clock{};
  // Tensors that were published on a GPU are copied to this one; empty: they are lent from the
  // file, in host memory. Throws Error(kUnsupported) that says why this is not possible here.
  std::optional<Device> device{};
  std::string domain{};
};

struct PlayerStats {
  std::uint64_t messages = 0;      // published
  std::uint64_t left = 0;          // to be published, in this turn of a loop
  std::uint64_t loops = 0;         // that are over
  std::uint64_t unreadable = 0;    // left out, because they are damaged
  std::uint64_t bytes_copied = 0;  // of tensors: of files whose tensors are not aligned
  std::uint64_t position_ns = 0;   // recorded time, ns since 1970
  std::uint64_t latest_ns = 0;     // by which a message was late, at most
  std::uint64_t late_ns = 0;       // the sum over all messages
  double rate = 1.0;
  bool paused = false;
  bool ended = false;
  std::string error{};  // of the first message that could not be read, or for which it ended
};

}  // namespace tensorbus::inline v0
