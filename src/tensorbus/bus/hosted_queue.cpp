#include "tensorbus/bus/hosted_queue.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace tensorbus::bus {
namespace {

void tell_done(const Party& party) { party.client->tell({.request = party.request}); }

void tell_timed_out(const Party& party) {
  party.client->tell({.request = party.request, .timed_out = 1});
}

// What a client that only ever asks can take of our memory.
constexpr std::size_t kMostWaiting = 65'536;

template <typename Waiting>
void require_room_to_wait(const Waiting& waiting) {
  if (waiting.size() >= kMostWaiting)
    throw Error(Code::kOutOfMemory, "more than 65,536 calls wait for this queue already");
}

Error closed() { return {Code::kClosed, "the queue is closed"}; }

}  // namespace

void HostedQueue::put(Party from, HeldRef item, std::uint32_t flags) {
  if (!full()) {
    items_.emplace(next_number_++, std::move(item));
    ++unfinished_;
    tell_done(from);
  } else if ((flags & link::Put::kWait) != 0) {
    require_room_to_wait(putters_);
    putters_.push_back({std::move(from), std::move(item)});
  } else {
    tell_timed_out(from);
  }
  settle();
}

void HostedQueue::take_back(const Party& from, HeldRef item, std::uint64_t number) {
  items_.emplace(number, std::move(item));
  const Exchange* const client = from.client.get();
  std::erase_if(in_hand_, [&](const auto& dealt) {
    return dealt.second.client == client && dealt.second.number == number;
  });
  if (const auto undone = undone_.find(client); undone != undone_.end() && undone->second > 0)
    --undone->second;
  tell_done(from);
  settle();
}

void HostedQueue::get(Party from, std::uint32_t flags) {
  // To ask for the next one is to have done with those before.
  if (!options_.redeliver)
    std::erase_if(in_hand_,
                  [&](const auto& item) { return item.second.client == from.client.get(); });
  const bool waits = (flags & link::Get::kWait) != 0;
  if (items_.empty() && !waits) return tell_timed_out(from);
  require_room_to_wait(getters_);
  getters_.push_back(std::move(from));
  settle();
}

// Invariant 8: afterwards nobody waits for what is there.
void HostedQueue::settle() {
  while (deal() || (!putters_.empty() && !full())) {
    if (putters_.empty() || full()) continue;
    items_.emplace(next_number_, std::move(putters_.front().item));  // or it goes on waiting
    ++next_number_;
    ++unfinished_;
    const Party from = std::move(putters_.front().from);
    putters_.pop_front();
    tell_done(from);
  }
}

// One item to who has waited longest. One that cannot be lent to a client stays, and that client is
// told why.
bool HostedQueue::deal() {
  if (items_.empty()) return false;
  // Who died while it waited gets nothing; we shall be told to forget it.
  while (!getters_.empty() && getters_.front().client->peer_is_gone()) getters_.pop_front();
  if (getters_.empty()) return false;
  // What takes memory comes first: nobody may be forgotten for want of it.
  const auto oldest = items_.begin();
  const std::uint64_t number = oldest->first;
  const Exchange* const client = getters_.front().client.get();
  std::uint64_t& undone = undone_[client];
  const auto in_hand = in_hand_.emplace(next_deal_++, InHand{client, number, {}}).first;
  const Party to = std::move(getters_.front());
  getters_.pop_front();
  try {
    lend_(to, oldest->second, number);
    ++undone;
  } catch (const Error& error) {
    in_hand_.erase(in_hand);
    to.client->deny(to.request, error);
    return true;
  }
  if (options_.redeliver) in_hand->second.item = std::move(oldest->second);
  items_.erase(oldest);
  return true;
}

void HostedQueue::task_done(const Party& from) {
  if (unfinished_ == 0)
    throw Error(Code::kInvalidArgument, "task_done() called more often than there were items");
  const auto oldest = std::find_if(in_hand_.begin(), in_hand_.end(), [&](const auto& item) {
    return item.second.client == from.client.get();
  });
  if (oldest != in_hand_.end()) in_hand_.erase(oldest);
  if (auto& undone = undone_[from.client.get()]; undone > 0) --undone;
  tell_done(from);
  finish(1);
}

void HostedQueue::finish(std::uint64_t items) {
  unfinished_ -= std::min(items, unfinished_);
  if (unfinished_ != 0) return;
  for (const Party& joiner : std::exchange(joiners_, {})) tell_done(joiner);
}

void HostedQueue::join(Party from) {
  require_room_to_wait(joiners_);
  joiners_.push_back(std::move(from));
  finish(0);
}

void HostedQueue::tell_state(const Party& from) const {
  from.client->tell(
      {.request = from.request, .first = items_.size(), .second = unfinished_, .third = lost_});
}

void HostedQueue::cancel(const Exchange& client, std::uint32_t request) {
  const auto is_it = [&](const Party& party) {
    return party.client.get() == &client && party.request == request;
  };
  for (std::list<Party>* waiting : {&getters_, &joiners_}) {
    const auto found = std::find_if(waiting->begin(), waiting->end(), is_it);
    if (found == waiting->end()) continue;
    tell_timed_out(*found);
    waiting->erase(found);
    return;
  }
  const auto found = std::find_if(putters_.begin(), putters_.end(),
                                  [&](const Offered& offered) { return is_it(offered.from); });
  if (found == putters_.end()) return;  // it was answered, and that is under way
  tell_timed_out(found->from);
  putters_.erase(found);
}

void HostedQueue::forget(const Exchange& client) {
  const auto is_its = [&](const Party& party) { return party.client.get() == &client; };
  std::erase_if(getters_, is_its);
  std::erase_if(joiners_, is_its);
  std::erase_if(putters_, [&](const Offered& offered) { return is_its(offered.from); });
  for (auto at = in_hand_.begin(); at != in_hand_.end();) {
    InHand& in_hand = at->second;
    if (in_hand.client != &client) {
      ++at;
      continue;
    }
    if (options_.redeliver)
      items_.emplace(in_hand.number, std::move(in_hand.item));
    else
      ++lost_;
    at = in_hand_.erase(at);
  }
  // What it had and will not do any more, nobody waits for.
  if (const auto undone = undone_.extract(&client); undone && !options_.redeliver)
    finish(undone.mapped());
  settle();
}

void HostedQueue::close() {
  for (const std::list<Party>& waiting : {std::exchange(getters_, {}), std::exchange(joiners_, {})})
    for (const Party& party : waiting) party.client->deny(party.request, closed());
  for (const Offered& offered : std::exchange(putters_, {}))
    offered.from.client->deny(offered.from.request, closed());
  items_.clear();
  in_hand_.clear();
}

}  // namespace tensorbus::bus
