#pragma once

// The state of the model of the rings of producers: see put_ring_model.hpp.

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "tensorbus/link/ring/put_ring.hpp"

namespace tensorbus::link::testing {

struct PutRingSizes {
  int producers = 2;
  int puts = 2;     // of each producer
  int maxsize = 2;  // 0: no limit
  int slots = 2;
  bool asks = false;  // a client puts one item by message
  bool shuts_down = false;
};

// Mistakes that the model must find.
enum class PutRingMistake : std::uint8_t {
  kNone,
  kStoreOfTheTail,      // the producer does not swap the word
  kSleepsWithoutLook,   // the server does not check for entries after it has set `waits`
  kNoLeftover,          // no entry is left for the next pull because of its time
  kPromisesTwice,       // promised room still counts as room
  kAsksWithoutTaking,   // a put by message does not take room back
  kDeathBeforeEntries,  // a dead producer's entries are dropped
};

inline constexpr int kMaxProducers = 2;
enum class ProducerAt : std::uint8_t { kIdle, kBegun, kWritten, kPut, kWakes, kDead };
enum class RingServerAt : std::uint8_t {
  kAsleep,
  kPull,      // reads the tail of `ring`
  kTakeBack,  // takes the room of `ring` back
  kPullAgain,
  kPullLast,
  kPromise,
  kSetWaits,
  kLook,
};
struct ModelRing {
  PutRoom room;           // the word that both sides change
  std::int8_t waits = 0;  // both sides change it, too
  std::int8_t head = 0;   // the server's
  std::int8_t limit = 0;  // the server's
  std::int8_t known = 0;  // the server's
  std::int8_t now = 0;    // the server's
  bool wakes = false;     // a message is under way
  bool armed = false;     // the server's
  bool dropped = false;   // the server's: its client is gone
  ProducerAt at = ProducerAt::kIdle;
  std::int8_t begun = 0;                // index of the current put
  PutRoom read;                         // the word that the producer read: for kStoreOfTheTail
  std::array<std::int8_t, 4> stamps{};  // times of its entries
  std::array<std::int8_t, 4> after{};   // for each put, the number of puts that had returned before
};
struct PutRingState {
  std::array<ModelRing, kMaxProducers> rings{};
  RingServerAt at = RingServerAt::kAsleep;
  std::int8_t ring = 0;    // the server's current ring
  std::int8_t before = 0;  // the time at which the server began to pull
  std::int8_t clock = 1;
  std::int8_t items = 0;  // number of waiting items in the table
  std::int8_t got = 0;
  std::int8_t returned = 0;  // puts through rings
  bool getter = false;       // the getter waits
  bool came = false;         // the getter has come
  bool asked = false;        // the put by message is under way
  bool refused = false;      // the put by message waits for room
  bool put = false;          // the item of this put was put
  bool touched = false;      // the server has a message to handle
  bool over = false;         // was shut down: takes effect at the next decision
  bool closed = false;       // the shutdown has taken effect
  std::vector<std::pair<std::int8_t, std::int8_t>>
      order;  // entered items: the ring, and the position
  std::vector<std::pair<std::int8_t, std::int8_t>> done;  // puts that have returned, in order
};

}  // namespace tensorbus::link::testing
