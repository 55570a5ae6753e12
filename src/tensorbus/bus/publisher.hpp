#pragma once

#include <cstdint>
#include <optional>
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
#include "tensorbus/link/lease/mirror_origin.hpp"
#include "tensorbus/platform/export.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"

namespace tensorbus {

namespace memory {
class BlockRef;
}
namespace bus {
struct Stamp;
}

// A program's publisher, for the C interface and the Python extension. It lends memory, makes
// samples, and closes the publisher when it is destroyed; bus::PublisherCore delivers the samples.
// include/tensorbus/publisher.hpp describes the calls and their errors. Thread-safe.
class TENSORBUS_API Publisher {
 public:
  // `origin`: for a mirror. `first`: the sequence number of its first sample.
  explicit Publisher(const std::string& topic, const PublisherOptions& options = {},
                     const Participant& participant = Participant::shared(),
                     link::MirrorOrigin origin = {}, std::uint64_t first = 0);
  Publisher(Publisher&&) noexcept;
  Publisher& operator=(Publisher&&) noexcept;
  ~Publisher();  // close()

  Loan loan(const Layout& layout, Device device = Device::host());
  // Waits for room in the arena if there is none now. Returns nothing if the caller gives up.
  std::optional<Loan> loan(const Layout& layout, Device device,
                           const platform::StopCondition& stop);
  template <typename T>
  Loan loan(Dims shape, Device device = Device::host()) {
    return loan(Layout::contiguous(dtype_of<T>(), std::move(shape)), device);
  }

  // The caller keeps the loan unless the outcome is kDone.
  Published publish(Loan&& loan, void* stream = nullptr);
  Published publish(const Message& message);
  Published publish(const TensorView& tensor);
  Published publish(const Value& fields, const std::vector<TensorView>& tensors);
  Published publish(const Message& message, const platform::StopCondition& stop);
  // Publishes each row of a tensor, along its first dimension, as a message. A failure after the
  // first message is an outcome; the next call throws the Error.
  PublishedMany publish_many(const TensorView& rows, const platform::StopCondition& stop);
  PublishedMany publish_many(const TensorView& rows);
  // For a mirror: see bus::PublisherCore.
  Published publish_as(const Message& message, const bus::Stamp& as,
                       const platform::StopCondition& stop);
  bool restart(std::uint64_t sequence);
  void begin_at(std::uint64_t sequence);
  // Closes it as if its process had died: a subscriber's stream goes on with the next publisher.
  void break_off();

  bool ready();
  int event_descriptor();

  Outcome wait_for_subscribers(std::uint32_t count, const platform::StopCondition& stop);
  std::uint32_t number() const;  // its number in its participant
  std::uint32_t subscribers() const;
  PublisherStats stats() const;
  bool traced() const;  // a tracer is connected
  void close();

 private:
  struct State;
  Published publish(std::span<const TensorView> tensors, const Message& rest,
                    const platform::StopCondition& stop, const memory::BlockRef* loan,
                    const bus::Stamp* as = nullptr);

  bus::ForkSafe<State> state_;
};

}  // namespace tensorbus
