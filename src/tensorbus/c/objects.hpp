#pragma once

#include <tensorbus/tensorbus.h>

#include <atomic>
#include <chrono>
#include <string>
#include <utility>

#include "tensorbus/bus/event_loop/fork_safe.hpp"
#include "tensorbus/bus/listing.hpp"
#include "tensorbus/bus/participant/participant_ref.hpp"
#include "tensorbus/bus/publish/loan.hpp"
#include "tensorbus/bus/publisher.hpp"
#include "tensorbus/bus/queue.hpp"
#include "tensorbus/bus/share.hpp"
#include "tensorbus/bus/subscribe/sample.hpp"
#include "tensorbus/bus/subscriber.hpp"
#include "tensorbus/tensor/files/tensor_file.hpp"

// The objects behind the pointers of the C interface.

struct tb_participant {
  tensorbus::bus::ParticipantRef participant;
};
struct tb_publisher {
  tensorbus::bus::ForkSafe<tensorbus::bus::Publisher> publisher;
};
struct tb_subscriber {
  tensorbus::bus::ForkSafe<tensorbus::bus::Subscriber> subscriber;
};
struct tb_loan {
  tensorbus::bus::Loan loan;
};
struct tb_sample {
  explicit tb_sample(tensorbus::bus::Sample received) : sample(std::move(received)) {}
  const tensorbus::bus::Sample sample;
  std::atomic<std::uint32_t> references{1};
};
struct tb_queue {
  tensorbus::bus::ForkSafe<tensorbus::bus::Queue> queue;
};
struct tb_pending {
  tensorbus::bus::Queue::Pending pending;
};
struct tb_share {
  tensorbus::bus::Shared shared;
  std::string text;  // of its handle
};
struct tb_file {
  tb_file(const char* path, const tensorbus::FileOptions& options) : file(path, options) {}
  const tensorbus::tensor::TensorFile file;
  std::atomic<std::uint32_t> references{1};
};
struct tb_node_name {
  tensorbus::bus::NodeName name;
};

namespace tensorbus::c {

// Returns the participant; for NULL the shared participant of the process.
inline bus::ParticipantRef participant_of(const tb_participant* given) {
  return given == nullptr ? bus::shared_participant() : bus::of_this_process(given->participant);
}

inline std::chrono::nanoseconds timeout_of(std::int64_t nanoseconds) {
  return std::chrono::nanoseconds(nanoseconds);
}

// These throw Error(kInvalidArgument), which names the argument, for NULL. `given` may also be a
// function pointer.
const char* text_of(const char* given, const char* name);
template <typename T>
T& required(T* given, const char* name) {
  if (given == nullptr) throw Error(Code::kInvalidArgument, std::string(name) + " is NULL");
  return *given;
}
inline GiveUp give_up_of(const tb_give_up* given) {
  if (given == nullptr) return {};
  (void)required(given->asked, "give_up->asked");
  return [asked = given->asked, context = given->context] { return asked(context) != 0; };
}

inline platform::StopCondition stop_of(std::int64_t timeout_ns,
                                       const tb_give_up* give_up = nullptr) {
  return {timeout_of(timeout_ns), give_up_of(give_up)};
}

// Makes an object and stores it in `*target`. Checks `target` first: without it the object would
// leak.
template <typename T, typename Make>
void hand_out(T** target, const char* name, Make make) {
  T*& out = required(target, name);
  out = make();
}

// Returns the type of a definition; NULL means any type.
inline MessageType type_of(const char* definition) {
  return definition == nullptr ? MessageType() : MessageType(definition);
}
Access access_of(std::int32_t access);
Device device_of(std::int32_t device);
std::int32_t number_of(const Device& device) noexcept;

Layout layout_of(const tb_layout& layout);
// Returns the tensor. Takes over its keeper, also if it throws.
TensorView view_of(const tb_tensor& tensor);
// Returns the message, valid as long as `message`. Takes over the keepers, also if it throws.
Message message_of(const tb_message& message);
// The result points into `layout`.
tb_layout described(const Layout& layout) noexcept;

tb_origin described(const Origin& origin) noexcept;

// Makes a sample, which the caller owns.
tb_sample* sample_of(bus::Sample sample);

}  // namespace tensorbus::c
