#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <ostream>
#include <string>
#include <utility>

#include "exports.hpp"
#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/files/mapping.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::device::cu {
inline void PrintTo(Result result, std::ostream* out) {  // NOLINT: GoogleTest's name
  const char* name = nullptr;
  if (standin::cuGetErrorName(result, &name) != Result::kSuccess) name = "?";
  *out << name << " (" << static_cast<int>(result) << ")";
}
}  // namespace tensorbus::device::cu

// Each test runs in processes of its own, forked from one that never calls the driver.
namespace standin::test {

using tensorbus::test::Child;
using Environment = std::map<std::string, std::string>;

#define EXPECT_OK(call) EXPECT_EQ(call, ::standin::Result::kSuccess)
#define EXPECT_RESULT(expected, call) EXPECT_EQ(call, ::standin::Result::expected)

template <typename Body>
Child start_process(const Environment& environment, Body&& body) {
  return Child([&] {
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    body();
    std::fflush(stdout);
    return !::testing::Test::HasFailure();
  });
}

template <typename Body>
std::string outcome_in_process(const Environment& environment, Body&& body) {
  return start_process(environment, std::forward<Body>(body)).wait();
}

template <typename Body>
void in_process(const Environment& environment, Body&& body) {
  EXPECT_EQ(outcome_in_process(environment, std::forward<Body>(body)), "exit 0");
}
template <typename Body>
void in_process(Body&& body) {
  in_process({}, std::forward<Body>(body));
}

// Runs two processes, each with one end of a socket pair; either may wait for the other.
template <typename First, typename Second>
void in_two_processes(First&& first, Second&& second, const Environment& of_second = {}) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  Child first_child = start_process({}, [&] {
    ::close(ends[1]);
    first(ends[0]);
  });
  Child second_child = start_process(of_second, [&] {
    ::close(ends[0]);
    second(ends[1]);
  });
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_EQ(first_child.wait(), "exit 0");
  EXPECT_EQ(second_child.wait(), "exit 0");
}

template <typename Value>
void send(int wire, const Value& value) {
  ASSERT_EQ(::send(wire, &value, sizeof value, MSG_NOSIGNAL), ssize_t{sizeof value});
}
// Returns zeros, and fails the test, if the other end is gone.
template <typename Value>
Value receive(int wire) {
  Value value{};
  EXPECT_EQ(::recv(wire, &value, sizeof value, 0), ssize_t{sizeof value});
  return value;
}

void send_fd(int wire, int fd);
tensorbus::platform::Fd receive_fd(int wire);

// A context of a device, current in this thread.
class Session {
 public:
  explicit Session(Device device = 0) : device_(device) {
    EXPECT_OK(cuInit(0));
    EXPECT_OK(cuDevicePrimaryCtxRetain(&context_, device));
    EXPECT_OK(cuCtxPushCurrent_v2(context_));
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    EXPECT_OK(cuCtxPopCurrent_v2(nullptr));
    EXPECT_OK(cuDevicePrimaryCtxRelease_v2(device_));
  }
  Context context() const { return context_; }

 private:
  Device device_;
  Context context_ = nullptr;
};

inline Stream new_stream(unsigned flags = kStreamNonBlocking) {
  Stream stream = nullptr;
  EXPECT_OK(cuStreamCreate(&stream, flags));
  return stream;
}
inline Event new_event() {
  Event event = nullptr;
  EXPECT_OK(cuEventCreate(&event, kEventDisableTiming));
  return event;
}

// A page that other processes may share, registered while this lives.
class RegisteredPage {
 public:
  explicit RegisteredPage(int memfd)
      : page_(memfd, tensorbus::platform::page_bytes(),
              tensorbus::platform::Mapping::Access::kReadWrite) {
    EXPECT_OK(cuMemHostRegister_v2(page_.data(), page_.size(),
                                   kHostRegisterPortable | kHostRegisterDeviceMap));
  }
  RegisteredPage() : RegisteredPage(tensorbus::platform::Fd(new_memfd()).get()) {}
  RegisteredPage(const RegisteredPage&) = delete;
  RegisteredPage& operator=(const RegisteredPage&) = delete;
  ~RegisteredPage() { EXPECT_OK(cuMemHostUnregister(page_.data())); }

  // Inherited by children.
  static int new_memfd() {
    return tensorbus::platform::create_sealed_memfd("page", tensorbus::platform::page_bytes())
        .release();
  }
  std::byte* data() const { return page_.data(); }
  DevicePtr address(std::size_t word = 0) const {
    return reinterpret_cast<DevicePtr>(page_.data()) + 8 * word;
  }
  std::atomic_ref<std::uint64_t> word(std::size_t index = 0) const {
    return std::atomic_ref(reinterpret_cast<std::uint64_t*>(page_.data())[index]);
  }

 private:
  tensorbus::platform::Mapping page_;
};

// A chunk that can be exported, mapped for its own device.
struct MappedChunk {
  AllocationHandle handle = 0;
  DevicePtr address = 0;
  std::size_t bytes = 0;

  std::uint8_t* data() const { return reinterpret_cast<std::uint8_t*>(address); }
};
inline constexpr std::size_t kChunkBytes = std::size_t{2} << 20;

AllocationProp exportable_on(Device device);
MappedChunk map_chunk(AllocationHandle handle, std::size_t bytes, Device device,
                      AccessFlags access = AccessFlags::kReadWrite);
MappedChunk new_chunk(Device device = 0, std::size_t bytes = kChunkBytes);
void unmap_chunk(const MappedChunk& chunk);

}  // namespace standin::test
