#pragma once

// The state of the model of a queue that is used through proxies: see queue_proxy_model.hpp.

#include <array>
#include <cstdint>
#include <vector>

#include "tensorbus/bus/queue/queue_table.hpp"
#include "tests/model/queue_model_state.hpp"

namespace tensorbus::bus::testing {

struct ProxySizes {
  int items = 2;  // in the queue from the start
  int gets = 1;   // of each client
  bool redeliver = false;
  int deaths = 1;           // of clients at B
  bool cut = true;          // the session may end
  bool bridge_dies = true;  // A's bridge may die
  bool shuts_down = false;  // the queue may be shut down
};

// Mistakes that the model must find.
enum class ProxyMistake {
  kNone,
  kSentGoesBack,         // without `redeliver`, an item that B may have goes back at the end
  kUnsentIsLost,         // an item that was not sent to B is lost at the end
  kDeathIsNotTold,       // B's bridge does not report a dead client
  kDeathBeforeMessages,  // or reports it before its last messages
  kDeadLosesOffers,      // A's bridge does not cancel what a dead client was offered
  kLateOfferIsTaken,     // a client that gave up takes an offer that comes later
  kHoldIsNotHeard,       // the queue does not know that the proxies pass items on
  kEndFinishesItems,     // at the end, A's bridge finishes an item that a client at B has
};

enum class RemoteAt : std::uint8_t { kIdle, kAsked, kOffered, kClosed, kDead };
struct RemoteClient {
  RemoteAt at = RemoteAt::kIdle;
  std::int8_t asked = 0;   // the last request
  std::int8_t item = -1;   // the offered item
  std::int8_t number = 0;  // of the offer
};
// The offer that A's bridge has got for a client of B and has no reply for.
struct ProxyOffer {
  std::int8_t item = -1;
  std::int8_t number = 0;
  std::int8_t request = 0;
  bool sent = false;
};
struct ProxyItem {
  std::int8_t holder = -1;  // the last client whose get() returned it
  std::int8_t number = 0;   // the number that the holder got
  bool done = false;
  bool passed = false;  // without `redeliver`: the holder has requested the next item
  bool sent = false;    // a bridge has sent it to B
  bool at_a = false;    // the client at A has got it
};

enum class Relayed : std::uint8_t { kGet, kTake, kCancel, kDone, kDied, kOffer, kShutDown };
struct RelayedMessage {
  Relayed what{};
  std::int8_t request = 0;
  std::int8_t item = 0;
  std::int8_t number = 0;
};

inline constexpr int kRemotes = 2;
inline constexpr int kLocal = kRemotes;  // a client at A

struct ProxyState {
  QueueTable<int, int> table;
  std::array<RemoteClient, kRemotes + 1> clients{};
  std::array<ProxyOffer, kRemotes> proxies{};
  std::array<ProxyItem, kMaxItems> items{};
  std::array<std::vector<RelayedMessage>, kRemotes> up{};    // to A
  std::array<std::vector<RelayedMessage>, kRemotes> down{};  // to B
  std::int8_t deaths = 0;
  bool cut = false;
  bool ended_at_a = false;
  bool ended_at_b = false;
  bool bridge_died = false;
};

}  // namespace tensorbus::bus::testing
