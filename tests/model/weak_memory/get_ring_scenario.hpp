#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tensorbus/link/ring/get_ring.hpp"
#include "tests/model/weak_memory/fresh.hpp"
#include "tests/model/weak_memory/modelled_atomic.hpp"

namespace tensorbus::model {

// The server of a queue, which lends items in advance, and the getters that take them.
class GetRingScenario : public Scenario {
 public:
  enum class Server {
    kLendsAgain,  // as soon as there is room
    kTakesBack,   // items without a taker; then may lend another item
    kSleeps       // until all were taken
  };
  static constexpr std::uint32_t kSlots = 2;
  static constexpr std::size_t kMaxGetters = 2;

  GetRingScenario(Server server, std::size_t getters) : server_(server), getters_(getters) {}

  std::size_t threads() const override { return 1 + getters_; }
  void begin() override { all_.make_again(); }
  void run(std::size_t thread) override {
    if (thread != 0) return get(thread - 1);
    switch (server_) {
      case Server::kLendsAgain:
        return lend_again();
      case Server::kTakesBack:
        return take_back();
      case Server::kSleeps:
        return wait_for_all();
    }
  }
  std::string end(bool asleep) override {
    std::size_t taken = 0;
    std::set<std::uint64_t> takers(all_->back.begin(), all_->back.end());
    for (std::size_t getter = 0; getter < getters_; ++getter) {
      const auto& got = all_->got[getter];
      const auto& seen = all_->seen[getter];
      if (seen.size() > got.size() || !std::equal(seen.begin(), seen.end(), got.begin()))
        return "the server sees another taker";
      taken += got.size();
      for (const std::uint64_t item : got)
        if (!takers.insert(item).second) return "an item has two takers";
    }
    return asleep && taken == kSlots ? "the server sleeps, and all was taken" : "";
  }

 private:
  struct Objects {
    link::GetRingHeader header;
    std::array<link::GetRingSlot, kSlots> slots;
    link::GetRingWriter writer{header, slots};
    platform::Atomic<std::uint32_t> messages{0};               // of the socket: QUEUE_WAKE
    std::uint64_t next = 1;                                    // next item; it contains its number
    std::vector<std::uint64_t> lent{};                         // items without a seen taker
    std::vector<std::uint64_t> back{};                         // items that the server took back
    std::array<std::vector<std::uint64_t>, kMaxGetters> got;   // by each getter
    std::array<std::vector<std::uint64_t>, kMaxGetters> seen;  // by the server
  };

  void lend() {
    const std::uint64_t item = all_->next++;
    all_->writer.lend(std::as_bytes(std::span(&item, 1)), item, item % 2 == 0);
    all_->lent.push_back(item);
  }
  void note(std::uint32_t taker) {
    const std::size_t getter = taker - link::GetRingTaker::kFirstGetter;
    require(getter < getters_, "the server sees no taker");
    all_->seen[getter].push_back(all_->lent.front());
    all_->lent.erase(all_->lent.begin());
  }
  void collect() {
    for (; all_->writer.lent() != 0; all_->writer.pop()) {
      const std::uint32_t taker = all_->writer.taker();
      if (taker == link::GetRingTaker::kFree) return;
      note(taker);
    }
  }

  void lend_again() {
    for (int lent = 0; lent < 3; ++lent) {
      if (!all_->writer.has_room()) collect();
      if (!all_->writer.has_room()) return;
      lend();
    }
  }
  void take_back() {
    lend();
    lend();
    all_->writer.take_back([&](std::uint32_t taker) { note(taker); });
    all_->back = std::exchange(all_->lent, {});
    if (getters_ == 1) lend();
  }
  void wait_for_all() {
    lend();
    lend();
    for (;;) {
      const std::uint32_t seen = all_->messages.load(std::memory_order_acquire);
      all_->writer.wake_when_left(0);
      collect();
      if (all_->lent.empty()) return;
      all_->messages.sleep_while(seen);
      all_->writer.woken();
    }
  }

  void get(std::size_t getter) {
    link::GetRingReader reader(
        all_->header, all_->slots,
        link::GetRingTaker::kFirstGetter + static_cast<std::uint32_t>(getter));
    for (int turn = 0; turn < (getters_ == 1 ? 3 : 1); ++turn) {
      std::uint64_t item = 0;
      std::uint64_t lease = 0;
      const auto taken = reader.take([&](std::span<const std::byte> bytes, std::uint64_t position) {
        if (bytes.size() == sizeof item) std::memcpy(&item, bytes.data(), sizeof item);
        lease = position;
        return link::GetRingReader::Look::kReadable;
      });
      if (!taken) continue;
      require(item == taken->number, "it is another item");
      require((lease != 0) == (item % 2 == 0), "it has the lease of another item");
      require(all_->got[getter].empty() || all_->got[getter].back() < item, "the order is another");
      all_->got[getter].push_back(item);
      if (!taken->wakes) continue;
      all_->messages.fetch_add(1, std::memory_order_release);
      all_->messages.wake_all();
    }
  }

  const Server server_;
  const std::size_t getters_;
  Fresh<Objects> all_;
};

}  // namespace tensorbus::model
