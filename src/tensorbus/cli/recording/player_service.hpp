#pragma once

#include <string>
#include <tensorbus/content.hpp>
#include <tensorbus/listing.hpp>
#include <tensorbus/participant.hpp>
#include <tensorbus/player.hpp>

#include "tensorbus/cli/service/running_service.hpp"

namespace tensorbus::cli {

constexpr const char* kPlayerName = "player";  // of the service, by default

// The service by which `tensorbus player` controls a player, and the node that lists it.
class PlayerService {
 public:
  // Throws like NodeName and Service.
  PlayerService(const std::string& name, Player& player, std::string file,
                const Participant& participant);

 private:
  Content reply_to(const Content& request);

  Player& player_;
  const std::string file_;
  const NodeName node_;
  RunningService service_;
};

}  // namespace tensorbus::cli
