#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensorbus/link/ring/lease_table.hpp"
#include "tensorbus/link/ring/return_ring.hpp"
#include "tensorbus/link/ring/sample_ring.hpp"
#include "tensorbus/link/wake/wake.hpp"
#include "tests/model/weak_memory/explorer.hpp"
#include "tests/model/weak_memory/modelled_atomic.hpp"
#include "tests/model/weak_memory/wake_pages.hpp"

namespace tensorbus::model {

// One link: a publisher, and a subscriber that returns what it has read. The rings, the wake page
// and all their orders are the code of src/tensorbus/link; the code between them here does what
// OwnerLink, Sender, BorrowerLink and Receiver do with private memory.
class LinkScenario : public Scenario {
 public:
  struct Options {
    std::size_t slots = 2;
    std::uint32_t depth = 2;
    std::uint32_t max_held = 1;
    std::uint64_t publishes = 3;
    std::uint64_t receives = 1;      // number of attempts of the subscriber
    bool subscriber_sleeps = false;  // at each attempt until a sample has come
    bool publisher_sleeps = false;   // while there is no room: it is reliable
    bool keeps = false;              // the subscriber keeps the samples that it receives
  };
  static constexpr std::size_t kPublisher = 0;
  static constexpr std::size_t kSubscriber = 1;

  explicit LinkScenario(Options options) : options_(options) {}

  std::size_t threads() const override { return 2; }
  void begin() override;
  void run(std::size_t thread) override { thread == kPublisher ? publish_all() : receive_all(); }
  const void* canonical(const void* location) const override {
    return WakePages::canonical(location);
  }
  std::string end(bool asleep) override;

 private:
  static constexpr std::size_t kMaxSlots = 4;

  void publish_all();
  bool make_room();
  bool drop_oldest();
  void drain();
  void publish(std::uint64_t number, std::size_t block);
  std::uint32_t in_ring();

  void receive_all();
  bool receive_one();

  const Options options_;
  // Shared.
  std::array<link::Slot, kMaxSlots> slots_;
  std::array<link::ReturnSlot, kMaxSlots> returns_;
  link::ReturnWord tail_;
  std::array<Plain, 2 * kMaxSlots> blocks_;

  // The publisher's.
  link::SampleRingWriter writer_;
  link::ReturnRingReader returned_;
  std::optional<link::LeaseTable<std::size_t>> leases_;  // of blocks
  std::vector<std::size_t> free_;
  std::array<std::uint64_t, kMaxSlots> tokens_{};
  std::uint64_t next_ = 0;
  std::uint64_t oldest_ = 0;
  std::uint64_t dropped_ = 0;
  std::optional<link::Sleeper> publishers_sleeper_;
  link::Waker subscriber_;

  // The subscriber's.
  link::SampleRingReader reader_;
  link::ReturnRingWriter returning_;
  std::uint64_t received_ = 0;
  std::uint64_t expected_ = 0;
  std::optional<link::Sleeper> subscribers_sleeper_;
  link::Waker publisher_;
};

}  // namespace tensorbus::model
