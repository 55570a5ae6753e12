#pragma once

// Queues of tensors on a GPU, whose host is a process of its own that never uses one.

#include <optional>

#include "no_gpu_reader.hpp"
#include "tensorbus/bus/domain/domain.hpp"
#include "tensorbus/bus/queue.hpp"
#include "tensorbus/bus/share.hpp"

namespace tensorbus::testing {

class HostProcess {
 public:
  explicit HostProcess(const FreshDomain& domain, const Environment& environment = {})
      : child_(start_process(environment, [&] {
          const bus::Queue queue({.name = "items"}, domain.join());
          wait_for(wire_.ends[1]);
          EXPECT_EQ(standin_calls("cuInit"), 0U);
        })) {}
  ~HostProcess() {
    tell(wire_.ends[0]);
    EXPECT_EQ(child_.wait(), "exit 0");
  }
  HostProcess(const HostProcess&) = delete;
  HostProcess& operator=(const HostProcess&) = delete;

 private:
  struct Wire {
    Wire() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0); }
    ~Wire() {
      ::close(ends[0]);
      ::close(ends[1]);
    }
    Wire(const Wire&) = delete;
    Wire& operator=(const Wire&) = delete;
    int ends[2] = {-1, -1};
  };
  Wire wire_;
  standin::test::Child child_;
};

// Who puts, or gets, or attaches.
struct Client {
  explicit Client(const FreshDomain& domain) : us(domain.join()) {}
  bus::Queue open() const { return bus::Queue::open("items", kLong, us); }
  bus::ParticipantRef us;
};

inline bus::Loan standing_loan(const bus::ParticipantRef& us, int device) {
  return empty(Layout::contiguous(DType::kUInt64, {kWords}), false, us, Device::cuda(device));
}

// What a kernel of the stream fills, to be sent anywhere.
inline TensorView filled(const bus::Loan& loan, const TestStream& stream, std::uint64_t seed) {
  stream.launch([words = words_of(loan), seed] { write_pattern(words, seed); });
  TensorView view = loan.view();
  view.stream = stream.get();
  return view;
}

// The loan may go: whoever has the item keeps its memory.
inline void put_filled(bus::Queue& queue, const bus::ParticipantRef& us, const TestStream& stream,
                       std::uint64_t seed, int device = 0) {
  const bus::Loan loan = standing_loan(us, device);
  EXPECT_EQ(queue.put({{filled(loan, stream, seed)}}, kLong), Outcome::kDone);
}

inline void expect_on_device(const TestStream& stream, const bus::Tensor& tensor,
                             std::uint64_t seed) {
  EXPECT_TRUE(tensor.device().is_cuda());
  const Found found = read_on(stream, tensor);
  stream.synchronize();
  EXPECT_EQ(*found, seed);
  EXPECT_TRUE(tensor.intact());
}

inline bus::Sample next_item(bus::Queue& queue) {
  bus::Sample item;
  EXPECT_EQ(queue.get(item, kLong), Outcome::kDone);
  return item;
}

inline void await_death(const FreshDomain& domain, const Id& participant) {
  const bus::Domain there{domain.path()};
  EXPECT_TRUE(eventually([&] { return there.is_dead(participant); }));
}

inline void send_handle(int wire, const bus::Handle& handle) {
  std::array<char, 4096> line{};
  const std::string text = handle.text();
  std::copy(text.begin(), text.end(), line.begin());
  standin::test::send(wire, line);
}
inline bus::Handle receive_handle(int wire) {
  return bus::Handle::parse(standin::test::receive<std::array<char, 4096>>(wire).data());
}

}  // namespace tensorbus::testing
