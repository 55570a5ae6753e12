#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tensorbus/bus/participant.hpp"
#include "tensorbus/bus/publisher.hpp"
#include "tensorbus/bus/subscribe/sample.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"
#include "tensorbus/tensor/mcap/contents.hpp"

namespace tensorbus::recording {

// The beginning of the machine's name in the origin of a replayed sample.
inline constexpr const char* kReplay = "replay:";

// A publisher like the recorded one: type, depth, history, reliable, node. Its samples have the
// recorded numbers and times, and an origin: the machine "replay:" and the file's name, and the
// recorded publisher. For one thread, except publisher().
class ReplayedChannel {
 public:
  // `first`: the number of the first sample to be published. Throws as Publisher does.
  ReplayedChannel(const tensor::mcap::Channel& channel, const std::string& definition,
                  const std::string& topic, const std::string& file, std::uint64_t first,
                  const bus::Participant& participant);

  // Publishes the tensors in place, in the file or on a GPU. Numbers are raised if they do not
  // follow the last one, e.g. after the file begins again. Throws as Publisher::publish_as() does.
  Published publish(const bus::Sample& sample, const platform::StopCondition& stop);

  const bus::Publisher& publisher() const noexcept { return publisher_; }
  bus::Publisher& publisher() noexcept { return publisher_; }

 private:
  bus::Publisher publisher_;
  std::uint64_t next_;
  std::uint64_t raised_by_ = 0;
};

}  // namespace tensorbus::recording
