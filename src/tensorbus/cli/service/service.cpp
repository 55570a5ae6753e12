#include <chrono>
#include <string>
#include <tensorbus/client.hpp>
#include <vector>

#include "tensorbus/cli/commands.hpp"
#include "tensorbus/cli/json.hpp"
#include "tensorbus/cli/output.hpp"
#include "tensorbus/cli/served_queues.hpp"
#include "tensorbus/cli/texts.hpp"
#include "tensorbus/cli/values/literal.hpp"
#include "tensorbus/cli/values/message.hpp"

namespace tensorbus::cli {
namespace {

void list_services(Asking& asking) {
  using namespace std::string_view_literals;
  const Inspection inspection = asking.inspect();
  Table table{"SERVICE", ">WAITING", ">CLIENTS", "PROCESS", "MACHINE"};
  for (const auto& [process, queue] : queues_of(inspection)) {
    if (queue->service.empty()) continue;
    if (asking.json)
      Record("service")
          .field("service", queue->service)
          .process(*process)
          .fields(*queue, "name"sv, "service"sv)
          .print();
    table.add({queue->service, std::to_string(queue->stats.items),
               std::to_string(queue->clients.size()), process_name(*process), queue->machine});
  }
  if (!asking.json) table.print();
}

struct CallOptions {
  Asking asking;
  std::string service;
  std::string value;
  void add_to(CLI::App& command) {
    command.add_option("SERVICE", service, "The service's name.")->check(is_name())->required();
    command.add_option("VALUE", value, "The value, as JSON or a Python literal.")->required();
    asking.timeout = 5;
    asking.add_to(command);
  }
};

void call_service(CallOptions& options) {
  const Content request(literal_in(options.value));
  Client client(options.service, {.timeout = options.asking.limit()},
                participant_of(options.asking.domain));
  const Content reply = client.call(request);
  std::vector<Tensor> tensors;
  for (const TensorField& field : reply.tensors) tensors.push_back(field.tensor());
  const Message message(reply.fields, tensors);
  if (options.asking.json)
    return Record("reply").field("service", options.service).json("data", message.json()).print();
  for (const std::string& line : message.lines()) print(line + '\n');
}

}  // namespace

void add_service(CLI::App& all) {
  CLI::App& group = *all.add_subcommand("service", "Services: list and call them.");
  group.require_subcommand(1);
  add_command(group, "list", "List the services, once for each process that offers them.",
              "tensorbus service list", list_services);
  add_command(group, "call", "Call a service and print its reply.",
              "tensorbus service call mean '[1, 2, 3]'\n"
              "tensorbus service call detect '{\"threshold\": 0.5}' --timeout 10 --json",
              call_service);
}

}  // namespace tensorbus::cli
