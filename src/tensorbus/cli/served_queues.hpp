#pragma once

#include <algorithm>
#include <tensorbus/values/inspected.hpp>
#include <tuple>
#include <utility>
#include <vector>

namespace tensorbus::cli {

using ServedQueue = std::pair<const ParticipantReport*, const QueueReport*>;

// Returns all queues by name, each with the process of its server. The requests of a service are
// the items of a queue.
inline std::vector<ServedQueue> queues_of(const Inspection& inspection) {
  std::vector<ServedQueue> found;
  for (const ParticipantReport& process : inspection.participants)
    for (const QueueReport& queue : process.queues) found.emplace_back(&process, &queue);
  std::ranges::sort(found, {}, [](const ServedQueue& each) {
    return std::tuple(each.second->name, each.first->pid, each.second->number);
  });
  return found;
}

}  // namespace tensorbus::cli
