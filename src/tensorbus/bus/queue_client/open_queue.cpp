#include "tensorbus/bus/queue_client/open_queue.hpp"

#include <optional>

#include "tensorbus/bus/domain/topic_name.hpp"
#include "tensorbus/bus/queue_client/queue_client.hpp"
#include "tensorbus/bus/queue_client/queue_markers.hpp"

namespace tensorbus::bus {

OpenedQueue open_queue(ParticipantContext& participant, const QueueAddress& address,
                       const platform::StopCondition& stop) {
  return {address, QueueClient(participant, address).open(stop)};
}

OpenedQueue open_named_queue(ParticipantContext& participant, const Domain& domain,
                             const std::string& name, const platform::StopCondition& stop,
                             const std::optional<QueueAddress>& ended) {
  std::optional<OpenedQueue> opened;
  const auto try_open = [&] {
    const auto found = find_queue(domain, name, ended);
    if (!found) return false;
    try {
      opened = open_queue(participant, *found, stop);
    } catch (const Error& error) {
      if (error.code() != Code::kClosed) throw;
    }
    return opened.has_value();
  };
  if (domain.wait(stop, try_open) == Outcome::kDone) return *opened;
  throw Error(Code::kTimeout, "there is no queue \"" + name + "\" in the domain " + domain.path() +
                                  elsewhere_text(domain.path()));
}

}  // namespace tensorbus::bus
