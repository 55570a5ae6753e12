#pragma once

// For tests: lending by message with a peer that sends the messages itself, correct or wrong ones.

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tensorbus/bus/domain/domain.hpp"
#include "tensorbus/bus/share.hpp"
#include "tensorbus/link/ring/sample_ring.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tensorbus/tensor/descriptor.hpp"
#include "tests/fakes/fake_peer.hpp"
#include "tests/fakes/test_sockets.hpp"

namespace tensorbus::bus::testing {

using namespace tensorbus::testing;
using link::ControlType;
using link::testing::fds_of;

inline constexpr std::uint64_t kSeed = 7;

// Shares a tensor; whatever the fake peer does, another participant must still get it.
class FakeSession : public ::testing::Test {
 protected:
  bus::Shared share_pattern(const bus::ParticipantRef& by, const ShareOptions& options = {}) {
    std::vector<std::uint64_t> words(64);
    write_pattern(words, kSeed);
    return share({.tensors = {TensorView::of(words.data(), {64})}}, options, by);
  }
  void others_go_on() {
    EXPECT_EQ(seed_of(attach(shared->handle(), {.timeout = kLong}, other)), kSeed);
  }
  void all_comes_back() {
    shared.reset();
    EXPECT_TRUE(eventually([&] { return honest->memory_use().used_bytes == 0; }));
  }

  const FreshDomain fresh;
  const bus::ParticipantRef honest = fresh.join();
  const bus::ParticipantRef other = fresh.join();
  const Domain domain{fresh.path()};
  std::optional<bus::Shared> shared = share_pattern(honest);
};

// A fake peer that lends, wrongly, to a participant that attaches.
class FakeLender : public FakeSession {
 protected:
  ~FakeLender() override {
    if (thread.joinable()) thread.join();
  }
  bus::Handle handle_of_it() const {
    bus::Handle handle;
    handle.owner = self;
    handle.number = 1;
    handle.tensors = 1;
    return handle;
  }
  // Makes `honest` attach, and reads the request.
  void is_requested(std::chrono::nanoseconds timeout = kLong) {
    begins_to_attach(timeout);
    is_connected();
    greets();
  }
  void begins_to_attach(std::chrono::nanoseconds timeout) {
    thread = std::thread([this, timeout] {
      code = code_of([&] { sample = attach(handle_of_it(), {.timeout = timeout}, honest); });
    });
  }
  void is_connected() {
    EXPECT_TRUE(eventually([&] {  // others only look whether it lives
      peer.reset();
      if (platform::Fd socket = platform::accept_from(listener.get()))
        peer.emplace(std::move(socket));
      return peer && peer->next() == ControlType::kHello;
    }));
  }
  void greets() {
    peer->say_hello(self);
    ASSERT_EQ(peer->next(), ControlType::kAttach);
    request = peer->received.as<link::Attach>().request;
  }
  std::optional<Code> result() {
    thread.join();
    others_go_on();
    return code;
  }
  void send_segment(std::uint32_t number = 0) {
    peer->channel.send(link::SegmentMessage{number, 4096, 0},
                       fds_of(platform::duplicate(segment.get())));
  }
  tensor::Descriptor one_tensor(std::uint64_t offset, std::int64_t words) const {
    tensor::Descriptor descriptor;
    descriptor.tensors.push_back({.layout = Layout::contiguous(DType::kUInt64, {words}),
                                  .segment = 0,
                                  .offset = offset,
                                  .generation = 1});
    return descriptor;
  }
  static std::string bytes_of(const tensor::Descriptor& descriptor) {
    std::string bytes(descriptor.encoded_bytes(), '\0');
    descriptor.encode(std::as_writable_bytes(std::span(bytes)));
    return bytes;
  }
  void lend(const tensor::Descriptor& descriptor, std::uint64_t token = 5) {
    const std::string bytes = bytes_of(descriptor);
    ASSERT_LE(bytes.size(), link::kInlineBytes);
    peer->channel.send(
        link::Lent{request, token, static_cast<std::uint32_t>(bytes.size()), 0xffffffff, 0, bytes});
  }
  // Lends a sample whose tensor belongs to another owner. Its descriptor lies in the segment, where
  // the test can change it.
  void lend_of(const Id& owner) {
    tensor::Descriptor descriptor = one_tensor(0, 64);
    descriptor.owners.push_back(owner);
    descriptor.tensors[0].owner = 1;
    const std::string bytes = bytes_of(descriptor);
    std::memcpy(mapping.data() + kPlace, bytes.data(), bytes.size());
    peer->channel.send(
        link::Lent{request, 5, static_cast<std::uint32_t>(bytes.size()), 0, kPlace, {}});
  }
  void is_given_back(std::uint64_t token = 5) {
    ASSERT_EQ(peer->next(), ControlType::kReturn);
    EXPECT_EQ(peer->received.as<link::Return>().token, token);
  }
  void is_cut_off() {
    while (peer->next()) {
    }
  }

  static constexpr std::size_t kPlace = 1024;
  Id self = Id::random();
  platform::Fd listener = domain.listen(self);
  const platform::Fd segment = platform::create_sealed_memfd("x", 4096);
  const platform::Mapping mapping{segment.get(), 4096, platform::Mapping::Access::kReadWrite};
  std::optional<FakePeer> peer;
  std::uint32_t request = 0;
  std::optional<Code> code;
  std::optional<bus::Sample> sample;
  std::thread thread;
};

}  // namespace tensorbus::bus::testing
