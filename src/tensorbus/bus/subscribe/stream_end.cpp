#include "tensorbus/bus/subscribe/stream_end.hpp"

#include <algorithm>

namespace tensorbus::bus {

void StreamEnd::accepted(const link::BorrowerLink& link, std::span<const LinkRef> links) noexcept {
  if (const auto before = find(link); before != cut_off_.end()) {
    cut_off_.erase(before);
  } else if (broken_off_ != 0) {
    --broken_off_;
  } else {
    const auto broken_off = std::ranges::find_if(links, [](const LinkRef& one) {
      return one->accepted() && one->ended() && !one->publisher_closed() &&
             !one->cut_off_by_owner && !one->replaced;
    });
    if (broken_off != links.end()) (*broken_off)->replaced = true;
  }
}

std::uint64_t StreamEnd::note_end(const LinkRef& link) noexcept {
  if (!link->accepted()) return 0;
  if (link->publisher_closed()) return note_closed(*link);
  if (link->cut_off_by_owner)
    cut_off_.push_back({link});  // its capacity is reserved
  else if (!link->replaced)
    ++broken_off_;
  return 0;
}

std::uint64_t StreamEnd::note_closed(const link::BorrowerLink& link) noexcept {
  one_has_closed_ = true;
  return link.missed_at_the_end();
}

std::uint64_t StreamEnd::note_connection_lost(const LinkRef& link) noexcept {
  const auto found = find(*link);
  if (found == cut_off_.end() || found->link != link) return 0;
  cut_off_.erase(found);
  link->cut_off_by_owner = false;
  return note_end(link);
}

std::vector<StreamEnd::LinkRef> StreamEnd::forget_closed() {
  std::vector<LinkRef> closed;
  if (cut_off_.empty() || expected_ != 0) return closed;
  closed.reserve(cut_off_.size());
  std::erase_if(cut_off_, [&](const CutOff& one) {
    if (!one.link->publisher_closed()) return false;
    (void)note_closed(*one.link);
    closed.push_back(one.link);
    return true;
  });
  return closed;
}

bool StreamEnd::reached() const noexcept {
  return expected_ == 0 && broken_off_ == 0 && (one_has_closed_ || !cut_off_.empty()) &&
         std::ranges::all_of(cut_off_,
                             [](const CutOff& one) { return one.link->publisher_closed(); });
}

bool StreamEnd::look() noexcept {
  bool any = false;
  for (CutOff& one : cut_off_) any = !std::exchange(one.looked, true) || any;
  return any;
}

std::vector<std::pair<Id, std::uint32_t>> StreamEnd::take_rejoins() {
  std::vector<std::pair<Id, std::uint32_t>> taken;
  taken.reserve(cut_off_.size());
  for (CutOff& one : cut_off_)
    if (one.looked && !std::exchange(one.rejoining, true))
      taken.emplace_back(one.link->source()->participant, one.link->source()->publisher);
  return taken;
}

std::uint64_t StreamEnd::resume_at(const link::BorrowerLink& link) const noexcept {
  const auto before = find(link);
  return before == cut_off_.end() ? link::kNoSequence : before->link->next_sequence();
}

std::vector<StreamEnd::CutOff>::const_iterator StreamEnd::find(
    const link::BorrowerLink& link) const noexcept {
  return std::ranges::find_if(cut_off_, [&](const CutOff& one) {
    const link::Source& before = *one.link->source();
    return before.publisher == link.source()->publisher &&
           before.participant == link.source()->participant;
  });
}

}  // namespace tensorbus::bus
