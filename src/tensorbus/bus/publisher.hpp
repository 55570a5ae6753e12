#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tensorbus/layout.hpp>
#include <tensorbus/message.hpp>
#include <tensorbus/options.hpp>
#include <tensorbus/stats.hpp>
#include <tensorbus/value.hpp>
#include <vector>

#include "tensorbus/bus/participant.hpp"
#include "tensorbus/bus/publish/loan.hpp"
#include "tensorbus/platform/export.hpp"

namespace tensorbus {

namespace memory {
class BlockRef;
}
struct PublisherState;

// Sends samples to every subscriber of a topic, in any process of the domain. Thread-safe. Every
// call throws Error(kOutOfMemory) that names the limit when it meets one, and then has done
// nothing; of a publisher that was moved from, Error(kClosed).
//
//   tensorbus::Publisher publisher("camera/image");
//   tensorbus::Loan frame = publisher.loan<std::uint8_t>({1080, 1920, 3});
//   capture(frame.as<std::uint8_t>());
//   publisher.publish(std::move(frame));
class TENSORBUS_API Publisher {
 public:
  // Throws Error(kInvalidArgument) for an empty topic.
  explicit Publisher(const std::string& topic, const PublisherOptions& options = {},
                     const Participant& participant = Participant::shared());
  Publisher(Publisher&&) noexcept;
  Publisher& operator=(Publisher&&) noexcept;
  ~Publisher();  // close()

  const std::string& topic() const;
  const MessageType& type() const;

  // Memory for one tensor, of the host or of a GPU; its bytes are not cleared. Throws
  // Error(kOutOfMemory) that names the limit, Error(kClosed) after close(), Error(kUnsupported)
  // that says why a GPU's memory cannot be had.
  Loan loan(const Layout& layout, Device device = Device::host());
  template <typename T>
  Loan loan(Dims shape, Device device = Device::host()) {
    return loan(Layout::contiguous(dtype_of<T>(), std::move(shape)), device);
  }

  // Publishes a loan without a copy. With any outcome but kDone the loan is still the caller's.
  // `stream`: see TensorView. Throws Error(kClosed) for a loan that was published before,
  // Error(kInvalidArgument) for one of another participant, or of a publisher that is shared where
  // this one is not, or the other way round.
  Published publish(Loan&& loan, void* stream = nullptr);
  // Publishes tensors and fields. Tensors that lie in a loan travel by reference, all others are
  // copied once. Unless the outcome is kDone, nobody gets anything.
  Published publish(const Message& message);
  Published publish(const TensorView& tensor);
  // The same, with the fields as a value: TensorIndex{i} in it stands for tensors[i].
  //   publisher.publish(Value::Map{{"image", TensorIndex{0}}, {"id", 7}}, {loan.view()});
  Published publish(const Value& fields, const std::vector<TensorView>& tensors);
  // The same with a timeout of its own; it matters to a reliable publisher only.
  Published publish(const Message& message, std::chrono::nanoseconds timeout,
                    const GiveUp& give_up = {});

  Outcome wait_for_subscribers(std::uint32_t count, std::chrono::nanoseconds timeout);
  std::uint32_t subscribers() const;
  PublisherStats stats() const;
  // Subscribers still get what is in their queues. A second call does nothing.
  void close();

 private:
  struct Impl;
  PublisherState& state() const;
  Published publish(std::span<const TensorView> tensors, const Message& rest,
                    std::chrono::nanoseconds timeout, const memory::BlockRef* loan,
                    const GiveUp& give_up = {});

  std::unique_ptr<Impl> impl_;
};

}  // namespace tensorbus
