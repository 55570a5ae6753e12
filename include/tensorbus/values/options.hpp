#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tensorbus/values/device.hpp>
#include <tensorbus/values/message_type.hpp>
#include <tensorbus/values/outcome.hpp>

namespace tensorbus::inline v0 {

// The domain of a process, and the limits of its memory.
struct ParticipantOptions {
  // A path if it contains a slash, else a name beside the default domain; empty: TENSORBUS_DOMAIN,
  // else "default".
  std::string domain{};
  // Limit for the host memory of this participant, in bytes. 0: TENSORBUS_BUDGET (bytes), else
  // three quarters of the machine's memory.
  std::size_t budget_bytes = 0;
  // Freed memory, in bytes, that is kept for reuse instead of given back to the kernel.
  std::size_t warm_bytes = std::size_t{256} << 20;
  std::size_t segment_bytes = std::size_t{64} << 20;
  // Limit for the memory of this participant on each GPU, in bytes. 0: TENSORBUS_CUDA_BUDGET
  // (bytes), else half of the GPU's memory.
  std::size_t cuda_budget_bytes = 0;
};

// The access of a subscriber to received tensors.
enum class Access {
  // Read them in place; a write ends the process (SIGSEGV). The default.
  kRead,
  // Write them for this subscriber alone: a written page becomes a private copy that no other
  // process sees. Costs a mapping for each sample (one or two microseconds), and a fault and memory
  // for each written page; copying is faster if all of a large tensor is written. If the publisher
  // is `shared`, pages that were not written show the writes of other processes. A tensor on a GPU
  // is copied there, in the order of its streams: no thread waits for the copy, and the lease is
  // returned after it.
  kPrivate,
  // Write them for all: the publisher and all other holders of the sample see the writes. The
  // program must order the accesses of its processes. Only with publishers that are `shared`.
  kShared,
};

// How a publisher treats its subscribers.
struct PublisherOptions {
  // The number of samples that may wait for a subscriber without a depth of its own. A full queue
  // drops its oldest sample, so a slow subscriber is at most this many samples behind.
  std::uint32_t depth = 8;
  // The number of last samples that later subscribers get.
  std::uint32_t history = 0;
  // Drops nothing: publish() waits up to `timeout` for a subscriber without room.
  bool reliable = false;
  std::chrono::nanoseconds timeout = std::chrono::nanoseconds::max();
  // Only if `reliable`. A subscriber that had no room for this long, while publish() waited or gave
  // up, is cut off: the samples in its queue are dropped, and publish() continues. It is connected
  // again as soon as it looks for samples, and counts the lost samples as `missed`.
  std::chrono::nanoseconds lag_timeout = std::chrono::nanoseconds::max();
  // Subscribers with Access::kShared may write to samples of this publisher. They can then write to
  // all loans and samples of this participant's shared publishers, and to nothing else.
  bool shared = false;
  // Samples of this publisher lie in segments of their own. A subscriber's process gets only these,
  // so it can read (or, if shared, write) nothing else of this process. Tensors in loans of other
  // publishers, in empty() memory, and received tensors are copied. Mapped files and GPU memory are
  // not copied (docs/limits.md).
  bool isolated = false;
  // The type of its messages. Subscribers that expect another type are refused.
  MessageType type{};
  // Its node, for listings; empty: none.
  std::string node{};
};

// What a subscriber accepts, and how it waits.
struct SubscriberOptions {
  std::uint32_t depth = 0;       // 0: the publisher's depth
  std::uint32_t max_held = 256;  // samples of one publisher that may be held at once
  // false: never slows a publisher down. A reliable publisher does not wait for room here; it drops
  // the oldest waiting sample instead. For viewers and monitors.
  bool reliable = true;
  // true: receive() returns kClosed when every connected publisher has closed and none of their
  // samples is left. A publisher that was killed counts as closed only when another has taken its
  // place.
  bool end_of_stream = false;
  // How long receive() polls, and uses a core, before it sleeps. If the last samples arrived within
  // a few microseconds of the call, it polls for up to 80 us. 0: it sleeps at once.
  std::chrono::nanoseconds spin = std::chrono::microseconds(5);
  // With kShared, a publisher that is not `shared` refuses the subscriber; stats() reports that.
  Access access = Access::kRead;
  // The expected type. receive() reports publishers whose messages cannot be read; they stay
  // unconnected.
  MessageType type{};
  // Pins received blocks of host memory of at least 64 KiB for GPUs. Copies from them to a GPU are
  // then direct, and a program need not wait for them. Throws Error(kUnsupported) if no GPU
  // supports this. Not with Access::kPrivate.
  bool pin = false;
  // Tensors of a GPU that this process cannot use arrive in host memory. With this option they are
  // copied to this device, into memory of this process (cuda_budget_bytes). All other tensors stay
  // where they are. Throws Error(kUnsupported) with the reason if this is not possible here.
  // Device::host(): all GPU tensors arrive in host memory, even if this process can use the GPU.
  // Their owner copies them through pinned memory. Not with Access::kShared.
  //
  //   tensorbus::Subscriber subscriber("frames", {.device = tensorbus::Device::cuda(0)});
  std::optional<Device> device{};
  // Its node, for inspections; empty: none.
  std::string node{};
};

// The options of a queue. The process that makes it sets them for all users.
struct QueueOptions {
  std::uint32_t maxsize = 0;  // items that may wait; 0: no limit
  // If a process dies with an item for which it has not called task_done(), the item goes back into
  // the queue. Otherwise it counts as lost.
  bool redeliver = false;
  // Processes that get an item may write to its tensors; all holders see the writes. Tensors in
  // memory that does not allow this are copied.
  bool shared = false;
  std::string name{};  // the name for other processes; empty: only an address
  // Limit for the tensors and fields of waiting items, in bytes; 0: none.
  std::uint64_t max_bytes = 0;
  // Only for the object with these options, not for other users of the queue: pins the blocks of
  // the items that it gets, like SubscriberOptions::pin. A get waits for the owner of a new block,
  // for at most 100 ms; after that the item arrives unpinned.
  bool pin = false;
};

// How long tensors are shared, and what other processes may do with them.
struct ShareOptions {
  // The share ends after this number of attachments; its memory is freed after the last of them. 0:
  // any number.
  std::uint32_t uses = 0;
  // The share ends after this time, used or not.
  std::chrono::nanoseconds ttl = std::chrono::nanoseconds::max();
  // Processes that attach with Access::kShared may write to the tensors; all holders see the
  // writes. Tensors in memory that does not allow this are copied.
  bool shared = false;
};

// The access to shared tensors, and how long to wait for their owner.
struct AttachOptions {
  Access access = Access::kRead;
  std::chrono::nanoseconds timeout = std::chrono::nanoseconds::max();
  GiveUp give_up{};
};

}  // namespace tensorbus::inline v0
