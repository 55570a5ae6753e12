#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "actor.hpp"
#include "report.hpp"
#include "traffic.hpp"

namespace tensorbus::kills {

// Small segments and little that is kept warm, so that segments come and go all the time.
ParticipantOptions participant_options(const std::string& domain);

// Those in one process whom the deaths of others must cost nothing: a publisher of every topic,
// readers of every access and habit, and one who opens and closes endpoints and joins anew.
class Survivors {
 public:
  // `processes` with the same cast are on the domain.
  Survivors(const std::string& domain, std::uint64_t seed, int processes);
  ~Survivors();

  // Returns when everybody has everybody.
  void wait_for_all();
  // Returns when nobody holds anything, and every writer has written samples of one size; they do
  // so again when it is called again.
  void calm_down();
  void storm();
  // In a calm.
  Report report();

  Tally& tally() noexcept { return tally_; }
  const bus::ParticipantRef& participant(std::size_t i) const { return participants_.at(i); }

 private:
  void add_writer(const Topic& topic, const bus::ParticipantRef& participant);
  void add_reader(const std::string& name, const Topic& topic, const SubscriberOptions& options,
                  const bus::ParticipantRef& participant,
                  std::function<void(Activity&, Reader&)> wait, std::size_t holds);
  void add_passer_by();

  const std::string domain_;
  const int processes_;
  Random random_;
  Tally tally_;
  Weather weather_;
  std::uint64_t calms_ = 0;
  std::vector<bus::ParticipantRef> participants_;
  std::deque<Writer> writers_;
  std::deque<std::pair<std::string, Reader>> readers_;
  std::deque<Actor> actors_;  // last: they use all of the above
};

}  // namespace tensorbus::kills
