#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tensorbus/values/layout.hpp>
#include <tensorbus/values/message.hpp>
#include <tensorbus/values/options.hpp>
#include <tensorbus/values/stats.hpp>
#include <tensorbus/values/value.hpp>
#include <vector>

#include "tensorbus/bus/participant/participant_ref.hpp"
#include "tensorbus/bus/publish/loan.hpp"
#include "tensorbus/bus/publish/sample_builder.hpp"
#include "tensorbus/link/lease/mirror_origin.hpp"
#include "tensorbus/platform/export.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"

namespace tensorbus::bus {

class LoanedSample;
class Sender;

// A program's publisher: it lends memory and makes samples, which its Sender delivers.
// include/tensorbus/publisher.hpp describes the calls and their errors. Thread-safe. After a fork
// it belongs to the parent: programs hold it in a ForkSafe. After a move, only its destructor may
// be called.
class TENSORBUS_API Publisher final : SampleBuilder::Allocator {
 public:
  static constexpr const char* kMovedFrom = "this publisher was moved from";

  // `origin`: for a mirror. `first`: the sequence number of its first sample.
  explicit Publisher(const std::string& topic, const PublisherOptions& options = {},
                     const ParticipantRef& participant = shared_participant(),
                     link::MirrorOrigin origin = {}, std::uint64_t first = 0);
  Publisher(Publisher&&) noexcept = default;
  Publisher& operator=(Publisher&&) = delete;
  ~Publisher();  // close()

  Loan loan(const Layout& layout, Device device = Device::host());
  // Waits for room in the arena if there is none now. Returns an empty result if the caller gives
  // up.
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
  // `loan`: the block that contains all tensors, if known. `as`: see publish_as().
  Published publish(const Message& message, const platform::StopCondition& stop,
                    const memory::BlockRef* loan = nullptr, const Stamp* as = nullptr);
  // Publishes each row of a tensor, along its first dimension, as a message. An Error after the
  // first message becomes the outcome kInterrupted; a call for the remaining rows throws it.
  PublishedMany publish_many(const TensorView& rows, const platform::StopCondition& stop);
  PublishedMany publish_many(const TensorView& rows);
  // For a mirror: see Sender.
  Published publish_as(const Message& message, const Stamp& as,
                       const platform::StopCondition& stop);
  bool restart(std::uint64_t sequence);
  void begin_at(std::uint64_t sequence);
  // Closes the publisher as if its process had died: a subscriber's stream goes on with the next
  // publisher.
  void break_off();

  bool ready();
  int event_descriptor();

  Outcome wait_for_subscribers(std::uint32_t count, const platform::StopCondition& stop);
  std::uint32_t number() const;  // its number in its participant
  std::uint32_t subscribers() const;
  PublisherStats stats() const;
  bool traced() const;  // a tracer records its samples
  void close();

 private:
  memory::BlockRef allocate(std::size_t bytes) const override;
  memory::BlockRef allocate_on(const Device& device, std::size_t bytes) const override;
  bool waits_for_memory(const platform::StopCondition& stop) const;
  template <typename Work>
  Outcome with_room(const platform::StopCondition& stop, const Work& work) const;

  Published publish_now(const Message& message, const platform::StopCondition& stop,
                        const memory::BlockRef* loan, const Stamp* as);
  std::optional<Published> publish_alone(const TensorView& tensor, std::uint64_t fingerprint,
                                         const platform::StopCondition& stop);
  template <typename Sample>
  Published send(Sample& sample, const platform::StopCondition& stop, const Stamp* as = nullptr);
  void publish_together(const TensorView& rows, const Layout& row, std::size_t step,
                        const platform::StopCondition& stop, PublishedMany& done);

  bool copy(LoanedSample& sample, const Layout& layout, const ByteSpan& span, const std::byte* data,
            std::uint64_t fingerprint) const;
  bool take(LoanedSample& sample, const Layout& layout, const ByteSpan& span, const std::byte* data,
            memory::BlockRef block, std::uint64_t fingerprint) const;
  bool take(LoanedSample& sample, const Layout& layout, const ByteSpan& span, const std::byte* data,
            link::PublishedRef& issued, std::uint64_t fingerprint = 0) const;

  ParticipantRef participant_;
  std::shared_ptr<Sender> sender_;
};

}  // namespace tensorbus::bus
