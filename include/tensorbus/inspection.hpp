#pragma once

#include <tensorbus/c/inspection.h>

#include <chrono>
#include <string>
#include <tensorbus/internal/call.hpp>
#include <tensorbus/internal/from_c.hpp>
#include <tensorbus/values/inspected.hpp>

namespace tensorbus::inline v0 {
// Inspects all participants of a domain in parallel. They reply with counters that they always
// keep, so an inspection adds no subscriber and no publisher waits for it. A process that is
// stopped or hangs is listed with `error`. A process that has ended is not listed. `domain` is as
// in ParticipantOptions. A domain that does not exist is not made and has no participants. Throws
// Error(kPermission) for an unsafe directory.
//
//   for (const tensorbus::ParticipantReport& participant : tensorbus::inspect().participants)
//     for (const tensorbus::PublisherReport& publisher : participant.publishers)
//       std::cout << publisher.topic << ": " << publisher.stats.sent << '\n';
inline Inspection inspect(const std::string& domain = {},
                          std::chrono::nanoseconds timeout = std::chrono::seconds(1)) {
  const auto found = internal::created<internal::Owned<tb_inspection, tb_inspection_destroy>>(
      [&](tb_inspection** made) {
        return tb_inspect(internal::c_text_or_null(domain, "the domain"), timeout.count(), made);
      });
  return internal::from_c<Inspection>(*found);
}

}  // namespace tensorbus::inline v0
