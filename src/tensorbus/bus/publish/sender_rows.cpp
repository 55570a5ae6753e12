// Publishes many messages of one dtype and shape under one lock, with one fence and one wake-up.
#include <algorithm>
#include <new>

#include "tensorbus/bus/publish/sender.hpp"
#include "tensorbus/platform/clock.hpp"
#include "tensorbus/platform/error.hpp"

namespace tensorbus::bus {

void Sender::publish_many(OutgoingRows& rows, const platform::StopCondition& stop,
                          PublishedMany& done) {
  const platform::MutexLock lock(mutex_);
  while (rows.left != 0 && done.outcome == Outcome::kDone) {
    done.outcome = wait_for_room_in_all(stop);
    if (done.outcome == Outcome::kDone) push_rows_to_all(rows, done);
  }
}

// As push_to_all(), for as many messages as the reliable links have room for: at least one, as
// publish_many() has checked.
void Sender::push_rows_to_all(OutgoingRows& rows, PublishedMany& done) {
  std::uint32_t count = rows.left;
  for (const auto& link : links_) {
    if (!link->borrower().reliable) continue;
    link->prepare(rows.issued);
    count = std::min(count, std::max(1U, link->room_for(count)));
  }
  rows.next.sequence = next_sequence_;
  rows.next.timestamp_ns = platform::wall_clock_ns();
  if (rows.next.fingerprint == 0) rows.next.fingerprint = options_.type.fingerprint();
  if (options_.history != 0) {
    link::Entry entry = rows.next;
    for (std::uint32_t i = 0; i < count; ++i, rows.advance(entry)) remember(entry, rows.issued);
  }
  if (trace_) [[unlikely]]
    for (std::uint32_t i = 0; i < count; ++i) trace_->write_published(number_, next_sequence_ + i);
  next_sequence_ += count;
  done.subscribers = 0;
  for (const auto& link : links_)
    if (push_rows(*link, rows, count)) ++done.subscribers;
  wake_subscribers();
  stats_.sent += count;
  stats_.bytes_copied += count * rows.bytes_each;
  bytes_sent_ += count * rows.bytes_each;
  if (!links_.empty() || options_.history != 0) rows.issued->count_in(in_flight_);
  rows.advance(rows.next, count);
  rows.left -= count;
  done.count += count;
  done.sequence = next_sequence_ - 1;
  drain_after_push();
}

// Returns true if the link has got the last message.
bool Sender::push_rows(link::OwnerLink& link, const OutgoingRows& rows, std::uint32_t count) {
  link::Entry entry = rows.next;
  // The link has room for the messages below this index.
  std::uint32_t room = link.borrower().reliable ? count : 0;
  bool pushed = false;
  bool last = false;
  for (std::uint32_t i = 0; i < count; ++i, rows.advance(entry)) {
    last = false;
    if (i == room) room += link.room_for(count - i);
    if (i == room && !make_room(link)) {
      ++room;
      continue;
    }
    room = std::max(room, i + 1);
    if (pushed) {
      link.push_another(entry, rows.issued);
    } else {
      try {
        link.push(entry, rows.issued);
        pushed = true;
      } catch (const Error&) {
        drop_unsent(link);
        continue;
      } catch (const std::bad_alloc&) {
        drop_unsent(link);
        continue;
      }
    }
    ++stats_.delivered;
    last = true;
  }
  return last;
}

}  // namespace tensorbus::bus
