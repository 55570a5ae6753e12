#include "tests/model/weak_memory/link_scenario.hpp"

#include <cstring>
#include <span>

namespace tensorbus::model {

using link::Entry;

void LinkScenario::begin() {
  std::memset(static_cast<void*>(slots_.data()), 0, sizeof slots_);
  std::memset(static_cast<void*>(returns_.data()), 0, sizeof returns_);
  const std::size_t returns = std::bit_ceil(std::size_t{options_.depth} + options_.max_held);
  const std::span slots(slots_.data(), options_.slots);
  const std::span back(returns_.data(), returns);
  writer_ = link::SampleRingWriter(slots);
  reader_ = link::SampleRingReader(slots);
  returning_ = link::ReturnRingWriter(&tail_, back);
  returned_ = link::ReturnRingReader(&tail_, back);
  leases_.emplace(options_.depth + options_.max_held);
  free_.clear();
  for (std::size_t block = 0; block <= leases_->capacity(); ++block) free_.push_back(block);
  next_ = oldest_ = dropped_ = received_ = expected_ = 0;
  // The sleepers get the same slots each time: the slot that was given back last is taken first.
  publishers_sleeper_.reset();
  subscribers_sleeper_.reset();
  subscribers_sleeper_.emplace(WakePages::own());
  publishers_sleeper_.emplace(WakePages::own());
  subscriber_ = link::Waker(WakePages::of_peer(), subscribers_sleeper_->index());
  publisher_ = link::Waker(WakePages::of_peer(), publishers_sleeper_->index());
}

// --- The publisher: OwnerLink and Sender::push_to_all(). ---

std::uint32_t LinkScenario::in_ring() {
  const std::uint64_t outstanding = leases_->outstanding();
  if (next_ - oldest_ > outstanding) oldest_ = next_ - outstanding;
  while (next_ - oldest_ >= options_.depth && writer_.is_taken(oldest_)) ++oldest_;
  return static_cast<std::uint32_t>(next_ - oldest_);
}

void LinkScenario::drain() {
  const bool sound = returned_.drain([this](std::uint64_t token, std::uint64_t) {
    const auto block = leases_->take_back(token);
    require(block.has_value(), "a lease comes back that is not out");
    free_.push_back(*block);
  });
  require(sound, "the return ring overflows");
}

bool LinkScenario::make_room() {
  if (in_ring() >= options_.depth) return false;
  if (leases_->full()) drain();
  return !leases_->full();
}

bool LinkScenario::drop_oldest() {
  const std::uint64_t position = oldest_++;
  if (!writer_.drop(position)) return false;
  const auto block = leases_->take_back(tokens_[position % options_.slots]);
  require(block.has_value(), "a sample that was returned is dropped");
  free_.push_back(*block);
  ++dropped_;
  return true;
}

void LinkScenario::publish(std::uint64_t number, std::size_t block) {
  Entry entry;
  entry.sequence = number;
  entry.segment = memory::SegmentId{1};
  entry.offset = block;
  entry.token = leases_->issue(block);
  tokens_[next_ % options_.slots] = entry.token;
  writer_.push(next_++, entry);
  link::full_fence();
  subscriber_.wake_if_sleeping();
  drain();
}

void LinkScenario::publish_all() {
  for (std::uint64_t number = 0; number < options_.publishes; ++number) {
    const std::size_t block = free_.back();  // a loan is written before it is published
    free_.pop_back();
    blocks_[block].write(number);
    if (options_.publisher_sleeps) {
      while (!make_room())
        (void)publishers_sleeper_->park(std::chrono::hours(1), [this] { return make_room(); });
    } else {
      while (!make_room() && oldest_ != next_) drop_oldest();
      require(!leases_->full(), "an honest borrower holds more than it may");
    }
    publish(number, block);
  }
}

// --- The subscriber: BorrowerLink and Receiver. ---

bool LinkScenario::receive_one() {
  Entry entry;
  if (!reader_.pop(entry)) return false;
  require(!reader_.broken(), "the ring is broken");
  require(entry.segment == memory::SegmentId{1}, "a torn entry");
  require(entry.sequence >= expected_, "a sample comes twice");
  expected_ = entry.sequence + 1;
  ++received_;
  // Receiver::settle(): the swap of the pop is a fence.
  if (options_.publisher_sleeps) publisher_.wake_if_sleeping();
  require(blocks_[entry.offset].read() == entry.sequence, "memory of another sample");
  if (options_.keeps) return true;
  returning_.push(entry.token);
  if (options_.publisher_sleeps) {
    link::full_fence();
    publisher_.wake_if_sleeping();
  }
  return true;
}

void LinkScenario::receive_all() {
  for (std::uint64_t received = 0; received < options_.receives; ++received)
    while (!receive_one() && options_.subscriber_sleeps)
      (void)subscribers_sleeper_->park(std::chrono::hours(1), [this] { return reader_.ready(); });
}

std::string LinkScenario::end(bool asleep) {
  if (asleep) return "somebody sleeps who was not woken";
  if (received_ + dropped_ > options_.publishes) return "a sample is received and dropped";
  return "";
}

}  // namespace tensorbus::model
