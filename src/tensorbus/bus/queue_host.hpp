#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "tensorbus/bus/exchange.hpp"
#include "tensorbus/bus/held_sample.hpp"
#include "tensorbus/bus/queue_table.hpp"
#include "tensorbus/bus/surroundings.hpp"
#include "tensorbus/link/control.hpp"

namespace tensorbus::bus {

struct HostedQueueOptions {
  std::uint32_t maxsize = 0;  // 0: no limit
  bool redeliver = false;
  bool shared = false;  // its items are to be written
  std::string name{};
};

// The queues that live in a participant. On the service thread.
class QueueHost {
 public:
  using Client = std::shared_ptr<Exchange>;

  explicit QueueHost(Surroundings& surroundings) : surroundings_(surroundings) {}

  link::QueueName make(const HostedQueueOptions& options);
  void close(std::uint64_t number);

  // Requests of clients. Throw an Error that the request is denied with.
  void on_put(const Client& from, const link::Put& asked);
  void on_get(const Client& from, const link::Get& asked);
  void on_call(const Client& from, const link::QueueCall& asked);
  // These are not answered.
  void on_take(const Client& from, const link::Take& taken);
  void on_cancel(const Client& from, std::uint32_t request);
  // A client is gone.
  void forget(const Client& client);

 private:
  using Table = QueueTable<Client, HeldRef>;

  struct Hosted {
    std::uint64_t key = 0;
    HostedQueueOptions options;
    Table table;

    memory::Grant grant() const noexcept {
      return options.shared ? memory::Grant::kWrite : memory::Grant::kRead;
    }
  };
  struct Port;

  Hosted& find(const link::QueueName& name, bool by_name = false);

  Surroundings& surroundings_;
  std::map<std::uint64_t, Hosted> queues_;
  std::uint64_t next_ = 1;
};

}  // namespace tensorbus::bus
