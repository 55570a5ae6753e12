#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tensorbus/link/ring/put_ring.hpp"
#include "tests/model/weak_memory/fresh.hpp"
#include "tests/model/weak_memory/modelled_atomic.hpp"

namespace tensorbus::model {

// A client that puts items into a queue through its ring, and the queue's server.
class PutScenario : public Scenario {
 public:
  enum class Server {
    kTakesBack,  // promises room twice, and takes the rest back
    kSleeps,     // until there is an item, or a message
    kHasThread   // one of its threads sleeps on the ring until there is an item
  };
  static constexpr std::uint32_t kSlots = 2;

  PutScenario(Server server, std::uint32_t puts) : server_(server), puts_(puts) {}

  std::size_t threads() const override { return 2; }
  void begin() override { all_.make_again(); }
  void run(std::size_t thread) override {
    if (thread == 0) return put_all();
    return server_ == Server::kTakesBack ? take_back() : wait_for_all();
  }
  std::string end(bool asleep) override {
    if (asleep) return "the server sleeps, and there is an item";
    if (all_->was_over && all_->then_taken != all_->put) return "an item comes after the end";
    return all_->put == all_->taken ? "" : "an item is lost, or was not put";
  }

 private:
  struct Objects {
    link::PutRingHeader header;
    std::array<link::PutSlot, kSlots> slots;
    std::array<Plain, kSlots> items;
    link::PutRingWriter writer{header, slots};
    link::PutRingReader reader{header, slots};
    platform::Atomic<std::uint32_t> messages{0};  // of the socket: QUEUE_WAKE, PUT
    platform::Atomic<std::uint32_t> asked{0};
    bool was_over = false;
    std::uint32_t then_taken = 0;  // items taken at the next look
    std::uint32_t put = 0;
    std::uint32_t taken = 0;
  };

  void put_all() {
    for (std::uint32_t turn = 0; turn < puts_; ++turn)
      if (!put_one()) ask();
    all_->writer.end();
  }

  bool put_one() {
    if (all_->writer.room() == 0) return false;
    all_->items[all_->put % kSlots].write(all_->put);
    if (all_->writer.commit(1) == 0) return false;
    ++all_->put;
    if (all_->writer.wakes()) send();
    return true;
  }

  void ask() {  // a put by message, which is not modelled
    all_->asked.fetch_add(1, std::memory_order_release);
    send();
  }

  void send() {
    all_->messages.fetch_add(1, std::memory_order_release);
    all_->messages.wake_all();
    if (server_ != Server::kHasThread) return;
    all_->header.wake.fetch_add(1, std::memory_order_release);  // as the event loop wakes it
    all_->header.wake.wake_all();
  }

  void take_back() {
    all_->reader.promise(kSlots);
    take();
    all_->reader.promise(kSlots - all_->reader.promised());
    all_->was_over = all_->reader.over();
    take();
    all_->then_taken = all_->taken;
    all_->reader.take_back();
    take();
    require(all_->reader.promised() == 0 && all_->reader.waiting() == 0,
            "an item is put after room was taken back");
  }

  void wait_for_all() {
    all_->reader.promise(kSlots);
    for (;;) {
      const std::uint32_t seen = all_->messages.load(std::memory_order_acquire);
      all_->reader.wait(true);
      take();
      if (all_->taken + all_->asked.load(std::memory_order_acquire) == puts_) return;
      if (server_ == Server::kHasThread)
        sleep_on_ring(seen);
      else
        all_->messages.sleep_while(seen);
    }
  }

  void sleep_on_ring(std::uint32_t seen) {
    link::PutRingSleeper sleeper(all_->header);
    const auto word = sleeper.begin();
    if (!word) return all_->messages.sleep_while(seen);
    if (all_->messages.load(std::memory_order_acquire) == seen)
      (void)platform::futex_wait(*word->word, word->expected, std::chrono::hours(1));
    (void)sleeper.end();
  }

  void take() {
    while (all_->reader.waiting() != 0) {
      require(all_->items[all_->taken % kSlots].read() == all_->taken, "it is another item");
      ++all_->taken;
      all_->reader.pop();
    }
    require(!all_->reader.broken(), "the ring is broken");
  }

  const Server server_;
  const std::uint32_t puts_;
  Fresh<Objects> all_;
};

}  // namespace tensorbus::model
