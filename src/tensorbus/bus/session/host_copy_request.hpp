#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <variant>
#include <vector>

#include "tensorbus/bus/session/acquired_leases.hpp"
#include "tensorbus/bus/session/peer_session.hpp"
#include "tensorbus/platform/error.hpp"

namespace tensorbus::bus {

// The bytes of a tensor on a device that this process cannot use.
struct OutOfReach {
  std::size_t tensor = 0;
  Id owner;
  link::BlockName first;      // its lowest byte
  std::uint64_t bytes = 0;    // from its lowest byte on
  std::uint64_t to_data = 0;  // from its lowest byte to its first element
};

// Requests copies of tensors in host memory from their owners (docs/cuda.md, "Who cannot use the
// device"). Exists until the last reply. On the event loop only.
class HostCopyRequest : public std::enable_shared_from_this<HostCopyRequest> {
 public:
  using OnStaged = std::function<void(std::variant<AcquiredLeases, Error>)>;

  // Sends the requests. Calls `on_staged` once, perhaps before this returns, with `acquired` and
  // the copies, or with an Error. Throws nothing but std::bad_alloc.
  static void start(ParticipantContext& context, const std::vector<OutOfReach>& tensors,
                    AcquiredLeases acquired, OnStaged on_staged);

 private:
  // Tensors of one block, which are copied together.
  struct Part {
    Id owner;
    link::BlockName first;
    std::uint64_t bytes = 0;
    std::vector<OutOfReach> tensors;
  };

  HostCopyRequest(ParticipantContext& context, AcquiredLeases acquired, OnStaged on_staged)
      : context_(context), acquired_(std::move(acquired)), on_staged_(std::move(on_staged)) {}

  void add(const OutOfReach& tensor);
  void ask(const Part& part);
  void take(const Part& part, const std::shared_ptr<link::PeerMemory>& peer_memory,
            const link::Staged& staged);
  void one_done();
  void fail(const Error& error);
  template <typename Work>
  void guarded(Work work);

  ParticipantContext& context_;
  AcquiredLeases acquired_;
  OnStaged on_staged_;  // empty after the call
  std::vector<Part> parts_;
  std::size_t waiting_for_ = 0;
};

}  // namespace tensorbus::bus
