#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tensorbus/bus/participant/participant_ref.hpp"
#include "tensorbus/bus/publisher.hpp"
#include "tensorbus/bus/subscribe/sample.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"
#include "tensorbus/tensor/mcap/contents.hpp"

namespace tensorbus::recording {

// The prefix of the machine's name in the origin of a replayed sample.
inline constexpr const char* kReplay = "replay:";

// A publisher with the type, depth, history, reliable and node of a recorded publisher. Its samples
// have the recorded numbers and times. Their origin is the recorded publisher on a machine named
// "replay:" and the file's name. For one thread, except publisher().
class ReplayedChannel {
 public:
  // `first`: the number of the first sample to be published. Throws as Publisher does.
  ReplayedChannel(const tensor::mcap::Channel& channel, const std::string& definition,
                  const std::string& topic, const std::string& file, std::uint64_t first,
                  const bus::ParticipantRef& participant);

  // Publishes the tensors in place, in the file or on a GPU. If a recorded number does not exceed
  // the last one, e.g. when playing begins again, raises it and all later numbers. Throws as
  // Publisher::publish_as() does.
  Published publish(const bus::Sample& sample, const platform::StopCondition& stop);

  const bus::Publisher& publisher() const noexcept { return publisher_; }
  bus::Publisher& publisher() noexcept { return publisher_; }

 private:
  bus::Publisher publisher_;
  std::uint64_t next_;
  std::uint64_t raised_by_ = 0;
};

}  // namespace tensorbus::recording
