#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tensorbus/device.hpp>
#include <tensorbus/message_type.hpp>
#include <tensorbus/outcome.hpp>

namespace tensorbus::inline v0 {

// Where a process meets the others, and how much memory it may take for them.
struct ParticipantOptions {
  // A path if it has a slash, else a name beside the default domain; empty: TENSORBUS_DOMAIN, else
  // "default".
  std::string domain{};
  // The most host memory this participant takes. 0: TENSORBUS_BUDGET (bytes), else three quarters
  // of the machine's memory.
  std::size_t budget_bytes = 0;
  // Freed memory that is kept for the next sample instead of going back to the kernel.
  std::size_t warm_bytes = std::size_t{256} << 20;
  std::size_t segment_bytes = std::size_t{64} << 20;
  // The most memory this participant takes of each GPU. 0: TENSORBUS_CUDA_BUDGET (bytes), else half
  // of what the GPU has.
  std::size_t cuda_budget_bytes = 0;
};

// What a subscriber may do with the tensors that it receives.
enum class Access {
  // Read them where they are; to write is a crash. What everybody has who says nothing.
  kRead,
  // Write them, for itself: a page that is written becomes a copy of its own, and nobody else sees
  // it. Costs a mapping for each sample (one or two microseconds), and a fault and memory for each
  // page that is written: to write all of a large tensor, copy it, that is faster. A page that is
  // not written shows what others write, if the publisher is `shared`. Of a tensor on a GPU it is a
  // copy there, made in the order of its streams: nobody waits for it, and its lease goes back with
  // that.
  kPrivate,
  // Write them for all: the publisher and everybody else who holds the sample see it, in the order
  // that the processes agree upon themselves. Only of publishers that are `shared`.
  kShared,
};

// How a publisher treats those who subscribe.
struct PublisherOptions {
  // How many samples wait for a subscriber that did not say itself. When they are there, the
  // oldest is dropped for a new one, so what a slow subscriber sees is at most so many samples old.
  std::uint32_t depth = 8;
  // How many of the last samples a subscriber gets that comes later.
  std::uint32_t history = 0;
  // Drop nothing: a full subscriber makes publish() wait up to `timeout`.
  bool reliable = false;
  std::chrono::nanoseconds timeout = std::chrono::nanoseconds::max();
  // Subscribers that ask for Access::kShared may write to what is published here. They could write
  // to any loan and sample of the shared publishers of this participant, and to nothing else.
  bool shared = false;
  // What is published here lies in segments of its own. A subscriber's process is handed these and
  // no others, so that it can read (or, if shared, write) nothing else of this process. Tensors
  // that lie elsewhere are copied: loans of other publishers, empty(), received tensors. Mapped
  // files and memory of a GPU are not (docs/limits.md).
  bool isolated = false;
  // Of its messages; subscribers that expect another are refused.
  MessageType type{};
  // The node that it belongs to, if it does: for who lists the domain.
  std::string node{};
};

// What a subscriber wants, and how it waits for it.
struct SubscriberOptions {
  std::uint32_t depth = 0;       // 0: as the publisher says
  std::uint32_t max_held = 256;  // samples of one publisher that may be held at once
  // How long receive() looks by itself before it parks; costs a core for that time.
  std::chrono::nanoseconds spin = std::chrono::microseconds(5);
  // With kShared, a publisher that is not `shared` refuses, and stats() says so.
  Access access = Access::kRead;
  // What it expects. A publisher whose messages it could not read is not connected, and a receive()
  // says so.
  MessageType type{};
  // Pins received blocks of host memory for GPUs, from 64 KiB on, so that copies from them to a GPU
  // go without a detour, and a program need not wait for them. Without a GPU that can do that,
  // Error(kUnsupported) says so. Not with Access::kPrivate.
  bool pin = false;
  // Tensors that lay on a GPU which this process cannot use come in host memory, and are put onto
  // this one then, into memory of our own (cuda_budget_bytes). All others stay where they are.
  // Error(kUnsupported) says why that is not possible here.
  //
  //   tensorbus::Subscriber subscriber("frames", {.device = tensorbus::Device::cuda(0)});
  std::optional<Device> device{};
};

// What its maker says of a queue, for all who use it.
struct QueueOptions {
  std::uint32_t maxsize = 0;  // items that wait; 0: no limit
  // A process that dies with an item in its hands, for which it has not called task_done(), gives
  // it back to the queue. Without this such an item counts as lost.
  bool redeliver = false;
  // Those who get an item may write to its tensors, for all who have them. Tensors that lie
  // elsewhere are copied into memory for that.
  bool shared = false;
  std::string name{};  // by which others find it; empty: by its address alone
};

// How long something is shared, and what others may do with it.
struct ShareOptions {
  // After so many have attached it is over, and the memory goes with the last of them. 0: any
  // number.
  std::uint32_t uses = 0;
  // After this long it is over, whether anybody came or not.
  std::chrono::nanoseconds ttl = std::chrono::nanoseconds::max();
  // Those who attach with Access::kShared may write to it, for all. Tensors that lie elsewhere are
  // copied into memory for that.
  bool shared = false;
};

// What to do with what somebody shares, and how long to wait for its owner.
struct AttachOptions {
  Access access = Access::kRead;
  std::chrono::nanoseconds timeout = std::chrono::nanoseconds::max();
  GiveUp give_up{};
};

}  // namespace tensorbus::inline v0
