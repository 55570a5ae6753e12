#include "tensorbus/cli/requests.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <tensorbus/client.hpp>
#include <utility>

#include "tensorbus/cli/output.hpp"
#include "tensorbus/cli/texts.hpp"

namespace tensorbus::cli {
namespace {

// Throws Exit unless one process offers the service.
void require_one(const RunningCommand& running, const Asking& asking) {
  constexpr std::chrono::nanoseconds kMost = std::chrono::seconds(1);
  const Inspection found = tensorbus::inspect(asking.domain, std::min(asking.limit(), kMost));
  const std::string command = '`' + std::string(running.command) + '`';
  const std::string name = "the name '" + shown(running.name) + "'";
  std::ptrdiff_t count = 0;
  for (const ParticipantReport& process : found.participants)
    count += std::ranges::count(process.queues, running.name, &QueueReport::service);
  if (count == 1) return;
  if (count > 1)
    throw Exit(kFailed,
               std::to_string(count) + " processes have " + name + ": give each its own --name");
  for (const ParticipantReport& process : found.participants)
    if (!process.error.empty())
      throw Exit(kFailed, process_name(process) + ": " + shown(process.error) + ": it may be the " +
                              command + " with " + name);
  throw Exit(kFailed, "no " + command + " with " + name + " is running");
}

}  // namespace

Value ask(const RunningCommand& running, const Asking& asking, Value::Map request) {
  require_one(running, asking);
  Client client(running.name, {.timeout = asking.limit()}, participant_of(asking.domain));
  Value reply = client.call({std::move(request)}).fields;
  if (!reply.contains(running.field))
    throw Exit(kFailed, "service '" + shown(running.name) + "' is not offered by `" +
                            running.command + "`: its reply has no '" + running.field + "'");
  return reply;
}

}  // namespace tensorbus::cli
