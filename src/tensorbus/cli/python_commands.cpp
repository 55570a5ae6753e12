#include "tensorbus/cli/python_commands.hpp"

#include <algorithm>
#include <string>

#include "tensorbus/cli/other_programs.hpp"
#include "tensorbus/cli/output.hpp"

namespace tensorbus::cli {
namespace {

struct PythonCommand {
  const char* group;  // "": none
  const char* name;
  const char* about;
};

// As the help of the Python package has them (tests/python/cli/test_command.py).
constexpr PythonCommand kPythonCommands[] = {
    {"topic", "pub", "Publish values, images and arrays, once or at a rate."},
    {"queue", "keep",
     "Make queues and keep them, so that they outlive the programs that use them."},
    {"recording", "cut",
     "Write the messages of some topics, or of a time span, to a new recording."},
    {"recording", "merge",
     "Write the messages of several recordings to a new one, in the order of their times."},
    {"recording", "convert",
     "Write a file for Foxglove: images, point clouds and poses as its types, the rest as JSON."},
    {"recording", "export",
     "Write tensors to files of arrays, images or videos, and other values to lines of JSON."},
    {"recording", "import",
     "Write a recording of a ROS 2 bag: images, point clouds, poses as types, the rest as dicts."},
    {"", "doctor", "Show what this machine can do for Tensorbus, and why not."},
    {"", "bridge", "Connect the topics of this machine with those of others."},
    {"", "metrics",
     "Serve the figures of the domain and of its bridge to Prometheus, until Ctrl-C."},
    {"", "up", "Start the processes of a file, keep them alive, and end them together."},
    {"", "pipeline", "A running `tensorbus up`: the states and lines of its processes."},
    {"", "wait", "Wait until all of these names are there."},
    {"", "top", "Watch topics, processes and queues on the terminal, and what slows them down."},
    {"", "view",
     "Watch nodes, topics and messages on a web page of this machine, in Rerun or in Foxglove."},
    {"", "trace", "Record where samples spend their time, in which process and thread."},
};

}  // namespace

void add_python_commands(CLI::App& all) {
  for (const auto& [group, name, about] : kPythonCommands)
    (*group == '\0' ? all : *all.get_subcommand(group)).add_subcommand(name, about);
}

bool is_python_command(const std::string& first, const std::string& second) {
  return std::ranges::any_of(kPythonCommands, [&](const PythonCommand& each) {
    return *each.group == '\0' ? first == each.name : first == each.group && second == each.name;
  });
}

void run_python_command(const char* const* arguments) {
  run_if_there("tensorbus-python", arguments);
  throw Exit(kFailed, "this command needs the Python package: pip install 'tensorbus[cli]'");
}

}  // namespace tensorbus::cli
