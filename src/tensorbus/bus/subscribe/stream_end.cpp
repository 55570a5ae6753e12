#include "tensorbus/bus/subscribe/stream_end.hpp"

#include <algorithm>

namespace tensorbus::bus {
namespace {

bool is_same(const link::MirrorOrigin& one, const link::MirrorOrigin& other) noexcept {
  return one.publisher == other.publisher && one.machine == other.machine;
}

}  // namespace

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
  if (link->cut_off_by_owner) {
    cut_off_.push_back({link});  // capacity is reserved
    return 0;
  }
  note_mirror(*link);
  if (!link->replaced) ++broken_off_;
  return 0;
}

void StreamEnd::note_mirror(const link::BorrowerLink& link) noexcept {
  const auto& origin = link.source()->origin;
  if (origin == nullptr || link.next_sequence() == link::kNoSequence) return;
  std::erase_if(mirrors_, [&](const Mirror& one) { return is_same(*one.origin, *origin); });
  if (mirrors_.size() == kMaxMirrors) mirrors_.erase(mirrors_.begin());
  mirrors_.push_back({origin, link.next_sequence()});  // capacity is reserved
}

std::uint64_t StreamEnd::follow_mirrors(std::span<const LinkRef> links) noexcept {
  std::uint64_t missed = 0;
  std::erase_if(mirrors_, [&](const Mirror& one) {
    const auto next = std::ranges::find_if(links, [&](const LinkRef& link) {
      const auto& origin = link->source()->origin;
      return link->accepted() && origin != nullptr && is_same(*origin, *one.origin);
    });
    if (next == links.end()) return false;
    missed += (*next)->follow(one.next);
    return true;
  });
  return missed;
}

std::uint64_t StreamEnd::note_closed(const link::BorrowerLink& link) noexcept {
  one_has_closed_ = true;
  return link.missed_at_the_end();
}

std::uint64_t StreamEnd::note_connection_lost(const LinkRef& link) noexcept {
  const auto found = find(*link);
  if (found == cut_off_.end() || found->link != link) return 0;
  cut_off_.erase(found);
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
