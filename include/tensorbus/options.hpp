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

// The domain of a process, and how much memory it may use for it.
struct ParticipantOptions {
  // A path if it has a slash, else a name beside the default domain; empty: TENSORBUS_DOMAIN, or
  // "default".
  std::string domain{};
  // The most host memory that this participant allocates, in bytes. 0: TENSORBUS_BUDGET (bytes),
  // else three quarters of the machine's memory.
  std::size_t budget_bytes = 0;
  // Freed memory in bytes that is kept for reuse, and not given back to the kernel.
  std::size_t warm_bytes = std::size_t{256} << 20;
  std::size_t segment_bytes = std::size_t{64} << 20;
  // The most memory that this participant allocates on each GPU, in bytes. 0: TENSORBUS_CUDA_BUDGET
  // (bytes), else half of the GPU's memory.
  std::size_t cuda_budget_bytes = 0;
};

// What a subscriber may do with received tensors.
enum class Access {
  // Read them in place; a write ends the process (SIGSEGV). The default.
  kRead,
  // Write them for this subscriber alone: a written page becomes a private copy that no other
  // process sees. Costs a mapping for each sample (one or two microseconds), and a fault and memory
  // for each written page; to write all of a large tensor, copying it is faster. A page that was
  // not written shows the writes of others, if the publisher is `shared`. A tensor on a GPU is
  // copied there, in the order of its streams: no thread waits for it, and its lease goes back
  // after the copy.
  kPrivate,
  // Write them for all: the publisher and all other holders of the sample see the writes. The
  // processes themselves must agree on an order. Only from publishers that are `shared`.
  kShared,
};

// How a publisher treats its subscribers.
struct PublisherOptions {
  // The number of samples that may wait for a subscriber without a depth of its own. A full queue
  // drops its oldest sample, so a slow subscriber is at most this many samples behind.
  std::uint32_t depth = 8;
  // The number of last samples that a later subscriber gets.
  std::uint32_t history = 0;
  // Drops nothing: publish() waits up to `timeout` for a full subscriber.
  bool reliable = false;
  std::chrono::nanoseconds timeout = std::chrono::nanoseconds::max();
  // A subscriber that has had no room for so long, while publish() waited or gave up, is cut off:
  // the samples in its queue are dropped, and publish() goes on. It is connected again as soon as
  // it looks for samples, and counts what it has lost as `missed`. Only if `reliable`.
  std::chrono::nanoseconds lag_timeout = std::chrono::nanoseconds::max();
  // Subscribers that ask for Access::kShared may write to samples of this publisher. They can write
  // to all loans and samples of this participant's shared publishers, and to nothing else.
  bool shared = false;
  // Samples of this publisher lie in segments of their own. A subscriber's process gets only these
  // segments, so it can read (or, if shared, write) nothing else of this process. Tensors elsewhere
  // are copied: loans of other publishers, empty(), received tensors. Mapped files and GPU memory
  // are not (docs/limits.md).
  bool isolated = false;
  // The type of its messages; subscribers that expect another type are refused.
  MessageType type{};
  // The node that it belongs to, if any: for listings.
  std::string node{};
};

// What a subscriber accepts, and how it waits.
struct SubscriberOptions {
  std::uint32_t depth = 0;       // 0: as the publisher says
  std::uint32_t max_held = 256;  // samples of one publisher that may be held at once
  // false: never slows a publisher down. A reliable publisher does not wait for room here; when
  // there is none, the oldest waiting sample is dropped. For viewers and monitors.
  bool reliable = true;
  // true: receive() returns kClosed when every publisher that was connected has closed, and nothing
  // is left of what they sent. One that was killed has not closed: the stream goes on until another
  // publisher has taken its place.
  bool end_of_stream = false;
  // How long receive() polls before it sleeps; it uses a core meanwhile. If the last samples came
  // within some microseconds of the call, it polls for up to 80 us. 0: it sleeps at once.
  std::chrono::nanoseconds spin = std::chrono::microseconds(5);
  // With kShared, a publisher that is not `shared` refuses the subscriber; stats() reports that.
  Access access = Access::kRead;
  // The expected type. A receive() reports publishers whose messages cannot be read; they stay
  // unconnected.
  MessageType type{};
  // Pins received blocks of host memory for GPUs, from 64 KiB on. Copies from them to a GPU are
  // then direct, and a program need not wait for them. Throws Error(kUnsupported) if no GPU
  // supports this. Not with Access::kPrivate.
  bool pin = false;
  // Tensors of a GPU that this process cannot use arrive in host memory. With this option they are
  // copied to this device, into memory of our own (cuda_budget_bytes). All other tensors stay where
  // they are. Throws Error(kUnsupported) that says why this is not possible here.
  // Device::host(): all tensors of GPUs arrive in host memory, also where this process can use the
  // GPU, copied by their owner through pinned memory. Not with Access::kShared.
  //
  //   tensorbus::Subscriber subscriber("frames", {.device = tensorbus::Device::cuda(0)});
  std::optional<Device> device{};
  // The node that it belongs to, if any: for inspections.
  std::string node{};
};

// A queue's options, set by its maker for all its users.
struct QueueOptions {
  std::uint32_t maxsize = 0;  // items that may wait; 0: no limit
  // If a process dies with an item for which it has not called task_done(), the item goes back into
  // the queue. Without this option it counts as lost.
  bool redeliver = false;
  // Processes that get an item may write to its tensors; all holders see it. Tensors elsewhere are
  // copied into memory that allows this.
  bool shared = false;
  std::string name{};  // by which other processes find it; empty: only its address
  // Bytes of tensors and fields of the items that may wait; 0: no limit.
  std::uint64_t max_bytes = 0;
};

// How long tensors are shared, and what other processes may do with them.
struct ShareOptions {
  // The share ends after so many have attached; the memory is freed after the last of them. 0: any
  // number.
  std::uint32_t uses = 0;
  // The share ends after this time, used or not.
  std::chrono::nanoseconds ttl = std::chrono::nanoseconds::max();
  // Processes that attach with Access::kShared may write to the tensors; all holders see it.
  // Tensors elsewhere are copied into memory that allows this.
  bool shared = false;
};

// What to do with shared tensors, and how long to wait for their owner.
struct AttachOptions {
  Access access = Access::kRead;
  std::chrono::nanoseconds timeout = std::chrono::nanoseconds::max();
  GiveUp give_up{};
};

}  // namespace tensorbus::inline v0
