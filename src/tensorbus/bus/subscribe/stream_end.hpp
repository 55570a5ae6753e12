#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <tensorbus/values/id.hpp>
#include <utility>
#include <vector>

#include "tensorbus/link/ring/borrower_link.hpp"

namespace tensorbus::bus {

// Records how the publishers of one subscriber have ended, and which of them the subscriber must
// join again (docs/internals/protocol.md, "The end of a stream"). Not thread-safe: guarded by its
// subscriber's mutex.
class StreamEnd {
 public:
  using LinkRef = std::shared_ptr<link::BorrowerLink>;

  // Allocates room for the ends of `links` more links. Recording these ends then allocates nothing.
  void reserve(std::size_t links) {
    cut_off_.reserve(cut_off_.size() + links);
    mirrors_.reserve(std::min(mirrors_.size() + links, kMaxMirrors));
  }

  // Between these two calls the stream cannot end, because a link will be added or refused.
  void expect_link() noexcept { ++expected_; }
  void expect_link_no_more() noexcept { --expected_; }
  // Called when the owner has accepted the link. The link replaces a link that is gone, or one of
  // `links` that has ended and still has samples.
  void accepted(const link::BorrowerLink& link, std::span<const LinkRef> links) noexcept;

  // Records how a removed link ended. Returns the number of samples that its subscriber has missed.
  std::uint64_t note_end(const LinkRef& link) noexcept;
  // Returns true if this link's publisher has cut the subscriber off, and neither has a new link
  // nor is known to have closed.
  bool is_cut_off(const LinkRef& link) const noexcept {
    return std::ranges::find(cut_off_, link, &CutOff::link) != cut_off_.end();
  }
  // Returns the number of these links.
  std::size_t cut_off() const noexcept { return cut_off_.size(); }
  // Called when a link has ended, possibly for the second time: if it had been cut off before, it
  // is now final whether its publisher had closed. Returns the number of samples that the
  // subscriber has missed.
  std::uint64_t note_connection_lost(const LinkRef& link) noexcept;
  // Returns the number of samples that were lost between links to mirrors that were broken off and
  // the elements of `links` that replace them. Each link is replaced once.
  std::uint64_t follow_mirrors(std::span<const LinkRef> links) noexcept;
  // Removes the records of publishers that cut the subscriber off and have closed since. Returns
  // their links. If a publisher gets a new link, accepted() removes its record.
  std::vector<LinkRef> forget_closed();

  // Returns true if all publishers have closed, and at least one in an orderly way. Called when the
  // subscriber has no links.
  bool reached() const noexcept;

  // Records that the program looks for samples. If the program does not look, the subscriber is not
  // joined again: it would block the publisher once more. Returns true if take_rejoins() has new
  // results.
  bool look() noexcept;
  // Returns the publishers to join again, each once.
  std::vector<std::pair<Id, std::uint32_t>> take_rejoins();
  // If the link's publisher has cut the subscriber off, returns the number of the first sample that
  // the subscriber has not had; else kNoSequence.
  std::uint64_t resume_at(const link::BorrowerLink& link) const noexcept;

  void clear() noexcept {
    cut_off_.clear();
    mirrors_.clear();
  }

 private:
  struct CutOff {
    LinkRef link;            // of a publisher that is not known to have closed
    bool looked = false;     // the program has looked for samples since
    bool rejoining = false;  // take_rejoins() has returned it
  };
  std::vector<CutOff>::const_iterator find(const link::BorrowerLink& link) const noexcept;
  std::uint64_t note_closed(const link::BorrowerLink& link) noexcept;
  void note_mirror(const link::BorrowerLink& link) noexcept;

  // Mirrors that were broken off, oldest first. Beyond kMaxMirrors, the oldest one is removed.
  struct Mirror {
    std::shared_ptr<const link::MirrorOrigin> origin;
    std::uint64_t next = 0;  // sequence number
  };
  static constexpr std::size_t kMaxMirrors = 256;
  std::vector<Mirror> mirrors_;

  std::vector<CutOff> cut_off_;
  std::uint32_t expected_ = 0;    // links that are expected
  std::uint32_t broken_off_ = 0;  // publishers that were broken off and not replaced
  bool one_has_closed_ = false;   // at least one publisher has closed in an orderly way
};

}  // namespace tensorbus::bus
