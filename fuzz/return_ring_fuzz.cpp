// The owner's end of a link whose borrower writes any data to both rings. Only leases that were
// issued come back, each once, and the owner can always continue.

#include <map>
#include <memory>
#include <vector>

#include "fuzz/fuzz.hpp"
#include "tensorbus/link/ring/owner_link.hpp"

namespace tensorbus::fuzz {
namespace {

constexpr std::size_t kTokenWord = 2;

class Link {
 public:
  // Returns a sender that never sends.
  static std::shared_ptr<link::SegmentSender> sender() {
    return std::make_shared<link::SegmentSender>(nullptr, nullptr);
  }
  explicit Link(link::LinkLimits limits)
      : limits_(limits), link_(limits, {}, sender()), memory_(link_.segment()) {}
  ~Link() {
    link_.take_all_back();
    check(link_.outstanding() == 0);
    for (const auto& [token, sample] : live_) check(sample.expired());
  }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // The steps of a publisher: drains the return ring, makes room, pushes.
  void publish() {
    drain();
    if (link_.room() != link::OwnerLink::Room::kYes) {
      const std::uint64_t bad = link_.bad_returns();
      const std::uint32_t dropped = link_.drop_until_room();
      check(dropped == forget_expired() + (link_.bad_returns() - bad));
    }
    if (link_.room() != link::OwnerLink::Room::kYes)
      return check(link_.outstanding() == limits_.depth + limits_.max_held);
    auto sample = std::make_shared<const link::PublishedSample>(OneOrMany<memory::BlockRef>());
    link::Entry entry;
    link_.push(entry, sample);
    const link::Slot& slot = memory_.slots()[position_++ % memory_.slots().size()];
    check(slot.state == 2 * position_ - 1);
    check(live_.emplace(slot.words[kTokenWord].load(), sample).second);
    tokens_.push_back(slot.words[kTokenWord]);
    sample.reset();
    require_books();
  }

  // Drains the return ring: each of its leases comes back if it was issued and did not come back
  // before.
  void drain() {
    const std::uint64_t tail = *memory_.return_tail();
    const auto returns = memory_.returns();
    const bool makes_sense = tail - returned_ <= returns.size();
    std::uint64_t bad = link_.bad_returns();
    if (!makes_sense && !link_.broken()) ++bad;  // once
    std::vector<std::weak_ptr<const link::PublishedSample>> back;
    for (; makes_sense && returned_ != tail; ++returned_) {
      const auto found = live_.find(returns[returned_ % returns.size()].token);
      if (found == live_.end()) {
        ++bad;
        continue;
      }
      back.push_back(found->second);
      live_.erase(found);
    }
    check(link_.drain() == makes_sense && (makes_sense || link_.broken()));
    for (const auto& sample : back) check(sample.expired());
    check(link_.bad_returns() == bad);
    require_books();
  }

  void recall() {
    link_.recall();
    forget_expired();
    require_books();
  }

  // The steps of a borrower.
  void give_back(std::uint64_t token) {
    memory_.returns()[tail_++ % memory_.returns().size()].token = token;
    *memory_.return_tail() = tail_;
  }
  std::uint64_t some_token(std::size_t i) const {
    return tokens_.empty() ? i : tokens_[tokens_.size() - 1 - i % tokens_.size()];
  }
  void move_tail(std::uint64_t by) { *memory_.return_tail() = tail_ += by; }
  void overwrite_return(std::size_t i, std::uint64_t value) {
    memory_.returns()[i % memory_.returns().size()].token = value;
  }
  void overwrite_state(std::uint64_t back, std::uint64_t which) {
    const std::uint64_t position = position_ - back;
    memory_.slots()[position % memory_.slots().size()].state = 2 * position + which;
  }
  void overwrite(std::size_t slot, std::size_t word, std::uint64_t value) {
    link::Slot& target = memory_.slots()[slot % memory_.slots().size()];
    (word == 0 ? target.state : target.words[word % 15]) = value;
  }

 private:
  std::uint64_t forget_expired() {
    return std::erase_if(live_, [](const auto& item) { return item.second.expired(); });
  }
  void require_books() const {
    check(link_.outstanding() == live_.size());
    for (const auto& [token, sample] : live_) check(!sample.expired());
  }

  const link::LinkLimits limits_;
  link::OwnerLink link_;
  const link::LinkSegment& memory_;
  std::map<std::uint64_t, std::weak_ptr<const link::PublishedSample>> live_;  // by token
  std::vector<std::uint64_t> tokens_;                                         // all issued ones
  std::uint64_t position_ = 0;
  std::uint64_t returned_ = 0;
  std::uint64_t tail_ = 0;
};

void run(Input input) {
  const std::uint32_t depth = 1 + input.below(9);
  Link link({depth, 1 + input.below(9)});
  while (!input.empty()) {
    switch (input.below(9)) {
      case 0:
        link.publish();
        break;
      case 1:
        link.drain();
        break;
      case 2:
        link.give_back(link.some_token(input.byte()));
        break;
      case 3: {
        const std::uint64_t token = link.some_token(input.byte());
        link.give_back(token + input.number());
        break;
      }
      case 4:
        link.move_tail(input.number());
        break;
      case 5: {
        const std::size_t i = input.byte();
        link.overwrite_return(i, link.some_token(input.byte()));
        break;
      }
      case 6: {
        const std::uint64_t back = input.byte();
        link.overwrite_state(back, input.below(4));
        break;
      }
      case 7: {
        const std::size_t slot = input.byte();
        const std::size_t word = input.below(16);
        link.overwrite(slot, word, input.number());
        break;
      }
      default:
        link.recall();
    }
  }
}

}  // namespace
}  // namespace tensorbus::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tensorbus::fuzz::run({data, size});
  return 0;
}
