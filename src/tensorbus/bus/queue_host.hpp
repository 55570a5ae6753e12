#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "tensorbus/bus/hosted_queue.hpp"
#include "tensorbus/bus/surroundings.hpp"
#include "tensorbus/link/control.hpp"

namespace tensorbus::bus {

// The queues that live in a participant. On the service thread.
class QueueHost {
 public:
  explicit QueueHost(Surroundings& surroundings) : surroundings_(surroundings) {}

  link::QueueName make(const HostedQueueOptions& options);
  void close(std::uint64_t number);

  // Requests of clients. Throw an Error that the request is denied with.
  void on_put(const std::shared_ptr<Exchange>& from, const link::Put& asked);
  void on_get(const std::shared_ptr<Exchange>& from, const link::Get& asked);
  void on_call(const std::shared_ptr<Exchange>& from, const link::QueueCall& asked);
  void on_cancel(const Exchange& from, std::uint32_t request);
  // A client is gone.
  void forget(const Exchange& client);

 private:
  struct Hosted {
    std::uint64_t key = 0;
    std::shared_ptr<HostedQueue> queue;
  };

  HostedQueue& find(const link::QueueName& name, bool by_name = false);
  void lend(const Party& to, const HeldRef& item, std::uint64_t number, memory::Grant grant);

  Surroundings& surroundings_;
  std::map<std::uint64_t, Hosted> queues_;
  std::uint64_t next_ = 1;
};

}  // namespace tensorbus::bus
