#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tensorbus/bus/participant.hpp"
#include "tensorbus/bus/publisher.hpp"
#include "tensorbus/bus/subscribe/sample.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"
#include "tensorbus/tensor/recording/contents.hpp"

namespace tensorbus::bus {

// What begins the machine's name in the origin of a replayed sample.
inline constexpr const char* kReplay = "replay:";

// A publisher like the one that was recorded: type, depth, history, reliable, node. Its samples
// have the numbers and the times of the recorded ones, and an origin: as machine "replay:" and the
// file's name, as publisher the recorded one. For one thread, but for publisher().
class ReplayedChannel {
 public:
  // `first`: the number of the first sample that will be published. Throws as Publisher.
  ReplayedChannel(const recording::Channel& channel, const std::string& definition,
                  const std::string& topic, const std::string& file, std::uint64_t first,
                  const Participant& participant);

  // Publishes the tensors where they are, in the file or on a GPU. A number that is not beyond the
  // last, as after a new beginning of the file, is raised, as are those that follow. Throws as
  // Publisher::publish_as().
  Published publish(const Sample& sample, const platform::StopCondition& stop);

  const Publisher& publisher() const noexcept { return publisher_; }
  Publisher& publisher() noexcept { return publisher_; }

 private:
  Publisher publisher_;
  std::uint64_t next_;
  std::uint64_t raised_by_ = 0;
};

}  // namespace tensorbus::bus
