#include "tensorbus/cli/service/requests.hpp"

#include <tensorbus/client.hpp>
#include <utility>

#include "tensorbus/cli/output.hpp"
#include "tensorbus/cli/service/offers.hpp"
#include "tensorbus/cli/texts.hpp"
#include "tensorbus/cli/values/value_text.hpp"

namespace tensorbus::cli {
namespace {

// Throws Exit unless one process offers the service, and replies.
void require_one(const RunningCommand& running, const Asking& asking) {
  const Offers offers = offers_of(running.name, running.name, asking.domain,
                                  tensorbus::inspect(asking.domain, asking.short_limit()));
  const std::string command = '`' + std::string(running.command) + '`';
  const std::string name = "the name " + shown(text_literal(running.name));
  if (offers.all() == 0) throw Exit(kFailed, "no " + command + " with " + name + " is running");
  if (offers.all() > 1)
    throw Exit(kFailed, std::to_string(offers.all()) + " processes have " + name +
                            ": give each its own --name");
  for (const ParticipantReport& process : offers.silent)
    throw Exit(kFailed, process_name(process) + ": " + shown(process.error) + ": it may be the " +
                            command + " with " + name);
}

}  // namespace

Value ask(const RunningCommand& running, const Asking& asking, Value::Map request) {
  require_one(running, asking);
  Client client(running.name, {.timeout = asking.limit()}, participant_of(asking.domain));
  Value reply = client.call({std::move(request)}).fields;
  if (!reply.contains(running.field))
    throw Exit(kFailed, "service " + shown(text_literal(running.name)) + " is not offered by `" +
                            running.command + "`: its reply has no '" + running.field + "'");
  return reply;
}

}  // namespace tensorbus::cli
