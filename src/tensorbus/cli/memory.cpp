#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tensorbus/cli/commands.hpp"
#include "tensorbus/cli/json.hpp"
#include "tensorbus/cli/output.hpp"
#include "tensorbus/cli/texts.hpp"

namespace tensorbus::cli {
namespace {

using Processes = std::vector<const ParticipantReport*>;
using Lent = std::pair<const ParticipantReport*, const LentReport*>;

// Returns the processes that replied, the most used bytes first.
Processes by_process(const Inspection& inspection) {
  Processes found;
  for (const ParticipantReport& process : inspection.participants)
    if (process.error.empty()) found.push_back(&process);
  std::ranges::stable_sort(found, std::greater{}, [](const ParticipantReport* process) {
    return std::pair(process->memory.used_bytes, process->memory.reserved_bytes);
  });
  return found;
}

// Returns the memory of each process that each peer holds, the most bytes first.
std::vector<Lent> by_peer(const Processes& processes) {
  std::vector<Lent> found;
  for (const ParticipantReport* process : processes)
    for (const LentReport& each : process->memory.lent) found.emplace_back(process, &each);
  std::ranges::stable_sort(found, std::greater{}, [](const Lent& each) {
    return std::pair(each.second->bytes, each.second->oldest);
  });
  return found;
}

void print_memory_records(const Processes& processes, const std::vector<Lent>& lent) {
  using namespace std::string_view_literals;
  for (const ParticipantReport* process : processes)
    Record("memory").process(*process).fields(process->memory, "lent"sv).print();
  for (const auto& [process, each] : lent) Record("lent").process(*process).fields(*each).print();
}

std::string bytes(std::uint64_t count) { return bytes_text(static_cast<double>(count)); }

void print_processes(const Processes& processes) {
  Table table{"PROCESS", ">USED", ">RESERVED", ">BUDGET", ">LENT", ">PRIVATE", ">FILES", ">OLDEST"};
  for (const ParticipantReport* process : processes) {
    const MemoryReport& held = process->memory;
    std::uint64_t lent = 0;
    std::chrono::nanoseconds oldest{};
    for (const LentReport& each : held.lent) {
      lent += each.bytes;
      oldest = std::max(oldest, each.oldest);
    }
    table.add({process_name(*process), bytes(held.used_bytes), bytes(held.reserved_bytes),
               bytes(held.budget_bytes), bytes(lent), bytes(held.private_bytes),
               bytes(held.file_bytes), time_text(oldest)});
  }
  table.print();
}

void print_devices(const Processes& processes) {
  Table table{"PROCESS", "DEVICE", ">USED", ">RESERVED", ">BUDGET"};
  bool is_empty = true;
  for (const ParticipantReport* process : processes)
    for (const DeviceReport& device : process->memory.devices) {
      is_empty = false;
      table.add({process_name(*process), device.device, bytes(device.used_bytes),
                 bytes(device.reserved_bytes), bytes(device.budget_bytes)});
    }
  if (is_empty) return;
  print("\n");
  table.print();
}

void print_lent(const std::vector<Lent>& lent) {
  if (lent.empty()) return;
  Table table{"HOLDER", ">BYTES", ">LEASES", ">OLDEST", "MEMORY OF"};
  for (const auto& [process, each] : lent)
    table.add({process_name(each->peer), bytes(each->bytes), std::to_string(each->leases),
               time_text(each->oldest), process_name(*process)});
  print("\n");
  table.print();
}

void memory(Asking& asking) {
  const Inspection inspection = asking.inspect();
  const Processes processes = by_process(inspection);
  const std::vector<Lent> lent = by_peer(processes);
  if (asking.json) return print_memory_records(processes, lent);
  print_processes(processes);
  print_devices(processes);
  print_lent(lent);
}

}  // namespace

void add_memory(CLI::App& all) {
  add_command(all, "memory",
              "Show which processes hold which memory: by process, then by lender and holder.\n\n"
              "The most bytes come first. USED is memory in loans and in held samples, RESERVED is "
              "memory allocated from the system, LENT is memory that other processes hold. OLDEST "
              "is the time since the oldest lease began.",
              "tensorbus memory\n"
              "tensorbus memory --json | jq 'select(.kind == \"lent\")'",
              memory);
}

}  // namespace tensorbus::cli
