// The report on queues for an inspection.
#include "tensorbus/bus/queue/queue_server.hpp"

namespace tensorbus::bus {
namespace {

template <typename Table>
void describe(const Table& table, QueueReport& report) {
  report.stats = {table.items(), table.unfinished(), table.lost(), table.bytes()};
  report.shut_down = table.is_shut_down();
  report.redelivered = table.redelivered();
  for (const auto& [client, use] : table.clients()) {
    report.in_hand += use.in_hand;
    report.clients.push_back(
        {client->peer_name(), use.in_hand, use.waiting_puts, use.waiting_gets});
  }
}

}  // namespace

std::vector<QueueReport> QueueServer::report() {
  std::vector<QueueReport> all;
  for (auto& [number, served] : queues_) {
    const Touch touch(*this, served);
    const QueueOptions& options = served.options;
    QueueReport report{.name = options.name,
                       .number = number,
                       .maxsize = options.maxsize,
                       .max_bytes = options.max_bytes,
                       .redeliver = options.redeliver};
    if (options.name.starts_with(kServiceQueue))
      report.service = options.name.substr(kServiceQueue.size());
    if (served.mirror)
      describe(served.mirror->items(), report);
    else
      describe(served.table, report);
    all.push_back(std::move(report));
  }
  return all;
}

}  // namespace tensorbus::bus
