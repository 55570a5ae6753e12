#include <algorithm>
#include <future>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tensorbus/client.hpp>
#include <tensorbus/listing.hpp>
#include <utility>
#include <vector>

#include "tensorbus/cli/commands.hpp"
#include "tensorbus/cli/json.hpp"
#include "tensorbus/cli/output.hpp"
#include "tensorbus/cli/service/offers.hpp"
#include "tensorbus/cli/texts.hpp"
#include "tensorbus/cli/values/message.hpp"
#include "tensorbus/cli/values/value_text.hpp"

namespace tensorbus::cli {
namespace {

// A parameter, as a node replies: "name", "value", "default", "help", "source", "settable".
using Parameter = Value;
using Parameters = std::vector<Parameter>;

struct ParamOptions {
  Asking asking;
  std::string node;
  std::string parameter;
  std::string value;

  void add_to(CLI::App& command, bool has_parameter) {
    auto& of = *command.add_option(
        "NODE", node,
        has_parameter ? "The node's name." : "The node's name; by default all nodes.");
    if (has_parameter) {
      of.required();
      command.add_option("PARAMETER", parameter, "The parameter's name.")->required();
    }
    asking.timeout = 5;
    asking.add_to(command);
  }
};
struct ListOptions : ParamOptions {
  void add_to(CLI::App& command) { ParamOptions::add_to(command, false); }
};
struct GetOptions : ParamOptions {
  void add_to(CLI::App& command) { ParamOptions::add_to(command, true); }
};
struct SetOptions : ParamOptions {
  void add_to(CLI::App& command) {
    ParamOptions::add_to(command, true);
    command.add_option("VALUE", value, "The value, of the type of the default.")->required();
  }
};

std::string service_of(const std::string& node) { return node + "/parameters"; }

bool is_parameter(const Value& value) {
  return std::ranges::all_of(
      std::initializer_list<const char*>{"name", "value", "default", "help", "source", "settable"},
      [&](const char* key) { return value.contains(key); });
}

// Returns the node's parameters after the request. Throws Exit if it refuses the request, and what
// Client throws.
Parameters request_to(const std::string& node, Value::Map request, const Asking& asking) {
  Client client(service_of(node), {.timeout = asking.limit()}, participant_of(asking.domain));
  const Value reply = client.call({std::move(request)}).fields;
  if (const Value* const refused = reply.find("refused"))
    throw Exit(kFailed, shown(plain_text(*refused)));
  const Value* const found = reply.find("parameters");
  if (found == nullptr || !found->is<Value::List>() ||
      !std::ranges::all_of(found->as<Value::List>(), is_parameter))
    throw Error(Code::kProtocol, "service '" + service_of(node) + "' did not reply like a node");
  return found->as<Value::List>();
}

std::string several(std::size_t count, const std::string& node) {
  return std::to_string(count) + " nodes have the name " + shown(text_literal(node)) +
         ": give each its own name";
}

// Asks the only node of this name.
Parameters ask_one(const std::string& node, Value::Map request, const Asking& asking) {
  const Offers offers = offers_of(service_of(node), node, asking.domain,
                                  tensorbus::inspect(asking.domain, asking.short_limit()));
  if (offers.all() == 0)
    throw Exit(kFailed, "no running node " + shown(text_literal(node)) + " has parameters");
  if (offers.all() > 1) throw Exit(kFailed, several(offers.all(), node));
  return request_to(node, std::move(request), asking);
}

std::string no_answer(const Asking& asking) {
  return "no answer in " + short_number_text(asking.timeout) + " s";
}

// Returns the parameters of a node; nothing, and a line on standard error, if it does not reply.
std::optional<Parameters> parameters_of(const std::string& node, const Asking& asking) {
  std::string why;
  try {
    return request_to(node, {}, asking);
  } catch (const Error& error) {
    why = error.code() == Code::kTimeout ? no_answer(asking) : shown(error.what());
  } catch (const Exit& refused) {
    why = refused.what();
  }
  print_error("node " + shown(node) + ": " + why);
  return std::nullopt;
}

// Asks all nodes at the same time.
std::map<std::string, Parameters> ask_all(const Asking& asking) {
  const Inspection inspection = tensorbus::inspect(asking.domain, asking.limit());
  std::map<std::string, std::future<std::optional<Parameters>>> requests;
  std::set<std::string> names;
  for (const NodeInfo& node : list_nodes(participant_of(asking.domain))) names.insert(node.name);
  for (const std::string& name : names) {
    const Offers offers = offers_of(service_of(name), name, asking.domain, inspection);
    if (offers.all() > 1)
      print_error(several(offers.all(), name));
    else if (!offers.silent.empty())
      print_error("node " + shown(name) + ": " + no_answer(asking));
    else if (offers.count == 1)
      requests[name] =
          std::async(std::launch::async, [&asking, name] { return parameters_of(name, asking); });
  }
  std::map<std::string, Parameters> found;
  for (auto& [node, request] : requests)
    if (auto parameters = request.get()) found[node] = std::move(*parameters);
  return found;
}

void print_record(const std::string& node, const Parameter& parameter) {
  const auto json = [&](const char* name) { return Message(parameter.at(name), {}).json(); };
  Record("parameter")
      .field("node", node)
      .json("parameter", json("name"))
      .json("value", json("value"))
      .json("default", json("default"))
      .json("help", json("help"))
      .json("source", json("source"))
      .json("settable", json("settable"))
      .print();
}

void list_parameters(ListOptions& options) {
  std::map<std::string, Parameters> found;
  if (options.node.empty())
    found = ask_all(options.asking);
  else
    found[options.node] = ask_one(options.node, {}, options.asking);
  Table table{"NODE", "PARAMETER", "VALUE", "DEFAULT", "SOURCE", "SET", "HELP"};
  for (const auto& [node, parameters] : found) {
    for (const Parameter& parameter : parameters) {
      if (options.asking.json) print_record(node, parameter);
      table.add({node, plain_text(parameter.at("name")), whole_text(parameter.at("value")),
                 whole_text(parameter.at("default")), plain_text(parameter.at("source")),
                 parameter.at("settable") == Value(true) ? "yes" : "no",
                 plain_text(parameter.at("help"))});
    }
  }
  if (!options.asking.json) table.print();
}

void print_parameter(const ParamOptions& options, const Parameters& parameters) {
  const auto found = std::ranges::find_if(parameters, [&](const Parameter& parameter) {
    return parameter.at("name") == Value(options.parameter);
  });
  if (found == parameters.end())
    throw Exit(kFailed, "node " + shown(text_literal(options.node)) +
                            " has declared no parameter " + shown(text_literal(options.parameter)));
  if (options.asking.json) return print_record(options.node, *found);
  print(shown(plain_text(found->at("value"))) + '\n');
}

void get_parameter(GetOptions& options) {
  print_parameter(options, ask_one(options.node, {}, options.asking));
}

void set_parameter(SetOptions& options) {
  Value::Map request{{"set", Value::Map{{options.parameter, options.value}}}};
  print_parameter(options, ask_one(options.node, std::move(request), options.asking));
}

}  // namespace

void add_param(CLI::App& all) {
  CLI::App& group = *all.add_subcommand(
      "param", "Parameters of nodes: reading them, and setting those that can be set.");
  group.require_subcommand(1);
  add_command(group, "list", "List the parameters of a node, or of all nodes that run.",
              "tensorbus param list camera", list_parameters);
  add_command(group, "get", "Print the value of a parameter.", "tensorbus param get camera rate",
              get_parameter);
  add_command(group, "set", "Set a parameter that was declared with on_set, and print its value.",
              "tensorbus param set camera rate 10", set_parameter);
}

}  // namespace tensorbus::cli
