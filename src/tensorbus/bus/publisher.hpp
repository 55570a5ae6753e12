#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <tensorbus/layout.hpp>
#include <tensorbus/message.hpp>
#include <tensorbus/options.hpp>
#include <tensorbus/stats.hpp>
#include <tensorbus/value.hpp>
#include <vector>

#include "tensorbus/bus/event_loop/fork_safe.hpp"
#include "tensorbus/bus/participant.hpp"
#include "tensorbus/bus/publish/loan.hpp"
#include "tensorbus/platform/export.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"

namespace tensorbus {

namespace memory {
class BlockRef;
}

// A program's publisher: what the C interface and the Python extension hold. It gives out memory,
// makes samples, and closes the publisher when it goes; bus::PublisherCore delivers them. What the
// calls do, and throw, is said in include/tensorbus/publisher.hpp. Thread-safe.
class TENSORBUS_API Publisher {
 public:
  explicit Publisher(const std::string& topic, const PublisherOptions& options = {},
                     const Participant& participant = Participant::shared());
  Publisher(Publisher&&) noexcept;
  Publisher& operator=(Publisher&&) noexcept;
  ~Publisher();  // close()

  const std::string& topic() const;
  const MessageType& type() const;

  Loan loan(const Layout& layout, Device device = Device::host());
  template <typename T>
  Loan loan(Dims shape, Device device = Device::host()) {
    return loan(Layout::contiguous(dtype_of<T>(), std::move(shape)), device);
  }

  // With any outcome but kDone the loan is still the caller's.
  Published publish(Loan&& loan, void* stream = nullptr);
  Published publish(const Message& message);
  Published publish(const TensorView& tensor);
  Published publish(const Value& fields, const std::vector<TensorView>& tensors);
  Published publish(const Message& message, const platform::StopCondition& stop);

  Outcome wait_for_subscribers(std::uint32_t count, const platform::StopCondition& stop);
  std::uint32_t subscribers() const;
  PublisherStats stats() const;
  void close();

 private:
  struct State;
  Published publish(std::span<const TensorView> tensors, const Message& rest,
                    const platform::StopCondition& stop, const memory::BlockRef* loan);

  bus::ForkSafe<State> state_;
};

}  // namespace tensorbus
