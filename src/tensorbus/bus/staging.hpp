#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <variant>
#include <vector>

#include "tensorbus/bus/claimed.hpp"
#include "tensorbus/bus/exchange.hpp"
#include "tensorbus/platform/error.hpp"

namespace tensorbus::bus {

// A tensor of a sample on a device that this process cannot use: the bytes that it takes.
struct OutOfReach {
  std::size_t tensor = 0;
  Id owner;
  link::BlockName first;      // its lowest byte
  std::uint64_t bytes = 0;    // from there on
  std::uint64_t to_data = 0;  // from there to its first element
};

// Gets copies in host memory of such tensors, of those who own them (docs/cuda.md, "Who cannot use
// the device"). On the service thread.
class Staging : public std::enable_shared_from_this<Staging> {
 public:
  using OnStaged = std::function<void(std::variant<Claimed, Error>)>;

  // Throws nothing but std::bad_alloc; `on_staged` is called once, perhaps before this returns,
  // with what was claimed before and the copies.
  static void start(Surroundings& surroundings, const std::vector<OutOfReach>& tensors,
                    Claimed claimed, OnStaged on_staged);

 private:
  // Tensors of one block, which are copied together.
  struct Part {
    Id owner;
    link::BlockName first;
    std::uint64_t bytes = 0;
    std::vector<OutOfReach> tensors;
  };

  Staging(Surroundings& surroundings, Claimed claimed, OnStaged on_staged)
      : surroundings_(surroundings),
        claimed_(std::move(claimed)),
        on_staged_(std::move(on_staged)) {}

  void add(const OutOfReach& tensor);
  void ask(const Part& part);
  void take(const Part& part, const std::shared_ptr<link::Connected>& connected,
            const link::Staged& staged);
  void one_done();
  void fail(const Error& error);
  template <typename Work>
  void guarded(Work work);

  Surroundings& surroundings_;
  Claimed claimed_;
  OnStaged on_staged_;  // empty: it was called
  std::vector<Part> parts_;
  std::size_t waiting_for_ = 0;
};

}  // namespace tensorbus::bus
