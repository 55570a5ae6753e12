// What `tensorbus doctor` finds on machines that can do everything, and on those that lack
// something: the stand-in for the driver plays both.

#include "tensorbus/device/probe.hpp"

#include "process.hpp"
#include "tensorbus/device/gpu.hpp"
#include "tests/unit/bus/test_support.hpp"

namespace tensorbus {
namespace {

using namespace std::chrono_literals;
using device::CudaDriver;
using standin::Result;
using standin::Stream;
using standin::test::Environment;
using standin::test::in_process;
using ::testing::Test;

using Member = ProbeResult device::DeviceFindings::*;

constexpr auto kPatience = 20s;        // only a failure ever takes as long
constexpr auto kShortPatience = 20ms;  // for what never comes

struct Named {
  const char* name;
  Member member;
};
constexpr Named kFindings[] = {{"context", &device::DeviceFindings::context},
                               {"shared memory", &device::DeviceFindings::shared_memory},
                               {"read-only mapping", &device::DeviceFindings::read_only_mapping},
                               {"order", &device::DeviceFindings::order},
                               {"stream waits", &device::DeviceFindings::stream_waits},
                               {"legacy IPC", &device::DeviceFindings::legacy_ipc},
                               {"pool IPC", &device::DeviceFindings::pool_ipc}};

using Lacking = std::map<std::string, std::string>;

Lacking lacking(const device::DeviceFindings& device) {
  Lacking reasons;
  for (const Named& finding : kFindings)
    if (!(device.*finding.member).can()) reasons[finding.name] = (device.*finding.member).why_not;
  return reasons;
}

// Of a process that had so many. What looks after streams has one for good, and gives back soon.
void expect_descriptors_are_given_back(std::size_t before) {
  EXPECT_TRUE(testing::eventually([&] { return test::open_descriptors() <= before + 1; }));
}

void expect_all_unregistered() {
  EXPECT_TRUE(testing::eventually([] {
    return standin_calls("cuMemHostRegister_v2") == standin_calls("cuMemHostUnregister");
  }));
}

void expect_nothing_is_left() {
  for (const device::Gpu* device : device::Gpu::all())
    EXPECT_EQ(standin_allocated_bytes(device->ordinal()), 0U);
  EXPECT_EQ(standin_open_mappings(), 0U);
}

// What the first device lacks, each with the start of its reason; the second is like it.
void expect_lacking(const Environment& environment, const Lacking& expected) {
  in_process(environment, [&] {
    const std::size_t descriptors = test::open_descriptors();
    const device::CudaFindings found = device::probe_cuda(kPatience);
    ASSERT_TRUE(found.driver.can()) << found.driver.why_not;
    ASSERT_EQ(found.devices.size(), 2U);
    for (const device::DeviceFindings& device : found.devices) {
      const Lacking reasons = lacking(device);
      for (const auto& [what, why] : reasons) {
        ASSERT_TRUE(expected.contains(what)) << what << ": " << why;
        EXPECT_TRUE(why.starts_with(expected.at(what))) << why;
      }
      EXPECT_EQ(reasons.size(), expected.size());
    }
    expect_nothing_is_left();
    expect_descriptors_are_given_back(descriptors);
  });
}

TEST(CudaProbe, a_machine_that_can_do_everything_is_told_so) {
  in_process([] {
    const device::CudaFindings found = device::probe_cuda(kPatience);
    EXPECT_TRUE(found.driver.can());
    EXPECT_EQ(found.driver_version, 13000);
    ASSERT_EQ(found.devices.size(), 2U);
    const device::DeviceFindings& second = found.devices[1];
    EXPECT_EQ(second.ordinal, 1);
    EXPECT_EQ(second.name, "Stand-in 1");
    EXPECT_EQ(second.uuid, "GPU-5374616e-642d-696e-0000-000000000001");
    EXPECT_EQ(second.capability_major, 9);
    EXPECT_EQ(second.capability_minor, 0);
    EXPECT_EQ(second.memory_bytes, std::size_t{1} << 30);
    EXPECT_FALSE(second.integrated);
    EXPECT_FALSE(second.mig);
    for (const device::DeviceFindings& device : found.devices) {
      EXPECT_EQ(lacking(device), Lacking());
      EXPECT_TRUE(device.can_share());
    }
    ASSERT_EQ(found.peers.size(), 2U);
    EXPECT_EQ(found.peers[0].reader, 0);
    EXPECT_EQ(found.peers[0].owner, 1);
    EXPECT_TRUE(found.peers[0].access.can());
    EXPECT_TRUE(found.peers[1].access.can());
    expect_nothing_is_left();
  });
}

TEST(CudaProbe, everything_is_tried_and_given_back) {
  in_process([] {
    (void)device::probe_cuda(kPatience);  // what stays for good is there now
    const std::size_t descriptors = test::open_descriptors();
    const auto calls_of = [](const char* symbol) { return standin_calls(symbol); };
    const std::pair<const char*, const char*> pairs[] = {
        {"cuMemAddressReserve", "cuMemAddressFree"},
        {"cuMemMap", "cuMemUnmap"},
        {"cuMemHostRegister_v2", "cuMemHostUnregister"},
        {"cuMemPoolCreate", "cuMemPoolDestroy"},
        {"cuStreamCreate", "cuStreamDestroy_v2"},
        {"cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2"}};
    (void)device::probe_cuda(kPatience);
    for (const auto& [take, give] : pairs) {
      EXPECT_GT(calls_of(take), 0U) << take;
      EXPECT_TRUE(testing::eventually([&] { return calls_of(take) == calls_of(give); })) << take;
    }
    expect_descriptors_are_given_back(descriptors - 1);
    expect_nothing_is_left();
  });
}

TEST(CudaProbe, what_a_machine_lacks_is_named_by_the_call_that_failed) {
  const std::string no_memory = "cuMemGetAllocationGranularity: CUDA_ERROR_NOT_SUPPORTED";
  expect_lacking({{"STANDIN_WITHOUT", "vmm"}},
                 {{"shared memory", no_memory}, {"read-only mapping", no_memory}});
  expect_lacking({{"STANDIN_WITHOUT", "posix_fd"}},
                 {{"shared memory", no_memory}, {"read-only mapping", no_memory}});
  expect_lacking({{"STANDIN_WITHOUT", "mem_ops"}},
                 {{"stream waits", "cuStreamWaitValue64: CUDA_ERROR_NOT_SUPPORTED"}});
  expect_lacking({{"STANDIN_WITHOUT", "host_register"}},
                 {{"stream waits", "cuMemHostRegister of 8192 bytes: CUDA_ERROR_NOT_SUPPORTED"}});
  expect_lacking({{"STANDIN_WITHOUT", "legacy_ipc"}},
                 {{"legacy IPC", "cuIpcGetMemHandle: CUDA_ERROR_NOT_SUPPORTED"}});
  expect_lacking({{"STANDIN_WITHOUT", "pools"}},
                 {{"pool IPC", "cuMemPoolCreate: CUDA_ERROR_NOT_SUPPORTED"}});
  expect_lacking({{"STANDIN_WITHOUT", "pool_ipc"}},
                 {{"pool IPC", "cuMemPoolExportToShareableHandle: CUDA_ERROR_NOT_SUPPORTED"}});
}

TEST(CudaProbe, a_call_that_fails_takes_with_it_what_needs_it) {
  const auto expect_failing = [](const std::string& symbol, const std::string& reason,
                                 const std::vector<std::string>& what) {
    Lacking expected;
    for (const std::string& name : what) expected[name] = reason;
    SCOPED_TRACE(symbol);
    expect_lacking({{"STANDIN_FAIL", symbol + ":0:999"}}, expected);
  };
  const std::vector<std::string> mapped = {"shared memory", "read-only mapping"};
  expect_failing("cuMemCreate", "cuMemCreate of 2097152 bytes on cuda:", mapped);
  expect_failing("cuMemExportToShareableHandle", "cuMemExportToShareableHandle of ", mapped);
  expect_failing("cuMemImportFromShareableHandle", "cuMemImportFromShareableHandle of ", mapped);
  expect_failing("cuMemAddressReserve", "cuMemAddressReserve of ", mapped);
  expect_failing("cuMemMap", "cuMemMap of ", mapped);
  expect_failing("cuMemSetAccess", "cuMemSetAccess of ", mapped);
  expect_failing("cuMemHostGetDevicePointer_v2", "cuMemHostGetDevicePointer: ", {"stream waits"});
  expect_failing("cuStreamCreate", "cuStreamCreate: ", {"order", "stream waits"});
  expect_failing("cuStreamIsCapturing", "cuStreamIsCapturing: ", {"order", "stream waits"});
  expect_failing("cuStreamWaitValue64_v2", "cuStreamWaitValue64: ", {"stream waits"});
  expect_failing("cuMemAlloc_v2", "cuMemAlloc of ", {"legacy IPC"});
  expect_failing("cuIpcGetMemHandle", "cuIpcGetMemHandle: ", {"legacy IPC"});
  expect_failing("cuMemAllocFromPoolAsync", "cuMemAllocFromPoolAsync of ", {"pool IPC"});
  expect_failing("cuMemPoolExportPointer", "cuMemPoolExportPointer: ", {"pool IPC"});
}

TEST(CudaProbe, a_device_without_a_context_can_do_nothing) {
  const std::string none = "it has no context";
  expect_lacking({{"STANDIN_FAIL", "cuDevicePrimaryCtxRetain:0:2"}},
                 {{"context", "cuDevicePrimaryCtxRetain of device "},
                  {"shared memory", none},
                  {"read-only mapping", none},
                  {"order", none},
                  {"stream waits", none},
                  {"legacy IPC", none},
                  {"pool IPC", none}});
}

TEST(CudaProbe, memory_that_is_short_is_no_reason_to_leave_any_of_it) {
  const std::string why = "cuMemCreate of 2097152 bytes on cuda:";
  expect_lacking({{"STANDIN_MEMORY", "4096"}},
                 {{"shared memory", why}, {"read-only mapping", why}});
}

// What the probe asks of the driver, changed after it was loaded: in CudaDriver::get() itself.
device::cu::Functions& driver() { return const_cast<CudaDriver&>(CudaDriver::get()); }

Result refuse_to_narrow(device::cu::DevicePtr address, std::size_t bytes,
                        const device::cu::AccessDesc* wanted, std::size_t count) {
  if (wanted->flags == device::cu::AccessFlags::kRead) return Result::kNotSupported;
  return standin::cuMemSetAccess(address, bytes, wanted, count);
}

TEST(CudaProbe, a_device_that_always_writes_is_told_apart) {
  in_process([] {
    driver().MemSetAccess = refuse_to_narrow;
    const Lacking reasons = lacking(device::probe_cuda(kPatience).devices.at(0));
    ASSERT_EQ(reasons.size(), 1U);
    EXPECT_TRUE(reasons.at("read-only mapping")
                    .starts_with("cuMemSetAccess for reading only: CUDA_ERROR_NOT_SUPPORTED"));
    expect_nothing_is_left();
  });
}

Result write_nothing(Stream, device::cu::DevicePtr, std::uint64_t, unsigned) {
  return Result::kSuccess;
}

TEST(CudaProbe, a_value_that_is_never_written_holds_up_nobody) {
  in_process({{"STANDIN_DEVICES", "1"}}, [] {
    driver().StreamWriteValue64 = write_nothing;
    const device::CudaFindings found =
        device::probe_cuda(500ms);  // enough for a stream to end, too
    EXPECT_EQ(found.devices.at(0).stream_waits.why_not,
              "cuStreamWriteValue64 was accepted, but the host sees no value after 500 ms");
    // The host has written the value, and the stream that waited went on.
    EXPECT_EQ(standin_calls("cuStreamCreate"), standin_calls("cuStreamDestroy_v2"));
    expect_all_unregistered();
    expect_nothing_is_left();
  });
}

Result refuse_to_write(Stream, device::cu::DevicePtr, std::uint64_t, unsigned) {
  return Result::kNotSupported;
}

TEST(CudaProbe, a_stream_that_waits_for_what_could_not_be_enqueued_goes_on) {
  in_process([] {
    driver().StreamWriteValue64 = refuse_to_write;
    const device::CudaFindings found = device::probe_cuda(kPatience);
    EXPECT_TRUE(found.devices.at(0).stream_waits.why_not.starts_with(
        "cuStreamWriteValue64: CUDA_ERROR_NOT_SUPPORTED"));
    EXPECT_EQ(standin_calls("cuStreamCreate"), standin_calls("cuStreamDestroy_v2"));
    expect_all_unregistered();
  });
}

Result create_paused(Stream* stream, unsigned flags) {
  const Result result = standin::cuStreamCreate(stream, flags);
  if (result == Result::kSuccess) standin_pause(*stream);
  return result;
}

TEST(CudaProbe, streams_that_never_advance_are_left_alone) {
  in_process([] {
    driver().StreamCreate = create_paused;
    const device::CudaFindings found = device::probe_cuda(kShortPatience);
    for (const device::DeviceFindings& device : found.devices) {
      EXPECT_EQ(lacking(device).size(), 2U);
      EXPECT_EQ(device.stream_waits.why_not,
                "cuStreamWriteValue64 was accepted, but the host sees no value after 20 ms");
    }
    EXPECT_EQ(standin_calls("cuStreamDestroy_v2"), 0U);
    EXPECT_EQ(standin_calls("cuMemHostUnregister"), 0U);  // they may still refer to it
    expect_nothing_is_left();
  });
}

// What the writer tells the host to do runs only when the reader was seen to be done.
std::atomic<bool> reader_is_done;

Result query_reader(Stream stream) {
  const Result result = standin::cuStreamQuery(stream);
  if (result == Result::kSuccess) {
    reader_is_done = true;
    reader_is_done.notify_all();
  }
  return result;
}

Result launch_late(Stream stream, standin::HostFunction function, void* argument) {
  driver().LaunchHostFunc = standin::cuLaunchHostFunc;  // the reader's runs at once
  reader_is_done = false;
  (void)standin::cuLaunchHostFunc(stream, [](void*) { reader_is_done.wait(false); }, nullptr);
  return standin::cuLaunchHostFunc(stream, function, argument);
}

TEST(CudaProbe, a_value_that_the_host_writes_after_the_reader_went_on_is_waited_for) {
  in_process({{"STANDIN_DEVICES", "1"}, {"STANDIN_WITHOUT", "mem_ops,host_register"}}, [] {
    driver().StreamQuery = query_reader;
    driver().LaunchHostFunc = launch_late;
    const device::DeviceFindings device = device::probe_cuda(kPatience).devices.at(0);
    EXPECT_TRUE(device.order.can()) << device.order.why_not;
  });
}

TEST(CudaProbe, streams_that_cannot_wait_are_ordered_by_the_host) {
  in_process({{"STANDIN_WITHOUT", "mem_ops,host_register"}}, [] {
    for (const device::DeviceFindings& device : device::probe_cuda(kPatience).devices) {
      EXPECT_TRUE(device.order.can()) << device.order.why_not;
      EXPECT_TRUE(device.can_share());
    }
  });
}

TEST(CudaProbe, peers_are_asked_for_in_pairs_and_tried) {
  in_process({{"STANDIN_WITHOUT", "peer"}}, [] {
    const device::CudaFindings found = device::probe_cuda(kPatience);
    ASSERT_EQ(found.peers.size(), 2U);
    for (const device::PeerFinding& peer : found.peers)
      EXPECT_EQ(peer.access.why_not, "cuDeviceCanAccessPeer returned 0");
    EXPECT_EQ(lacking(found.devices.at(0)), Lacking());
  });
  in_process({{"STANDIN_WITHOUT", "vmm"}, {"STANDIN_DEVICES", "3"}}, [] {
    const device::CudaFindings found = device::probe_cuda(kPatience);
    ASSERT_EQ(found.peers.size(), 6U);
    for (const device::PeerFinding& peer : found.peers)
      EXPECT_TRUE(peer.access.can());  // it says so
  });
  in_process({{"STANDIN_DEVICES", "1"}},
             [] { EXPECT_TRUE(device::probe_cuda(kPatience).peers.empty()); });
}

Result deny_peers(device::cu::DevicePtr address, std::size_t bytes,
                  const device::cu::AccessDesc* wanted, std::size_t count) {
  if (wanted->location.id == 0) return standin::cuMemSetAccess(address, bytes, wanted, count);
  return Result::kPeerAccessUnsupported;
}

TEST(CudaProbe, a_peer_that_the_driver_promised_in_vain_is_found_out) {
  in_process([] {
    driver().MemSetAccess = deny_peers;
    const device::CudaFindings found = device::probe_cuda(kPatience);
    for (const device::PeerFinding& peer : found.peers)
      EXPECT_EQ(peer.access.why_not.starts_with(
                    "cuMemSetAccess for a peer: CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"),
                peer.owner == 0)
          << peer.access.why_not;
    expect_nothing_is_left();
  });
}

Result name_of_a_part(char* name, int size, device::cu::Device) {
  std::snprintf(name, static_cast<std::size_t>(size), "NVIDIA H100 MIG 1g.10gb");
  return Result::kSuccess;
}
Result attributes_of_tegra(int* value, device::cu::DeviceAttribute wanted,
                           device::cu::Device device) {
  const Result result = standin::cuDeviceGetAttribute(value, wanted, device);
  if (wanted == device::cu::DeviceAttribute::kIntegrated) *value = 1;
  return result;
}

TEST(CudaProbe, the_kind_of_device_explains_what_it_lacks) {
  in_process({{"STANDIN_WITHOUT", "legacy_ipc"}}, [] {
    driver().DeviceGetName = name_of_a_part;
    const device::DeviceFindings part = device::probe_cuda(kPatience).devices.at(0);
    EXPECT_TRUE(part.mig);
    EXPECT_NE(part.legacy_ipc.why_not.find("NOT_SUPPORTED"), std::string::npos);
    EXPECT_NE(part.legacy_ipc.why_not.find("This is a MIG instance"), std::string::npos);
    EXPECT_EQ(lacking(part).size(), 1U);
    driver().DeviceGetAttribute = attributes_of_tegra;
    const device::DeviceFindings tegra = device::probe_cuda(kPatience).devices.at(0);
    EXPECT_TRUE(tegra.integrated);
    EXPECT_NE(tegra.legacy_ipc.why_not.find("(Tegra)"), std::string::npos);
  });
}

void expect_no_driver(const Environment& environment, const std::string& why) {
  in_process(environment, [&] {
    const device::CudaFindings found = device::probe_cuda();
    EXPECT_NE(found.driver.why_not.find(why), std::string::npos) << found.driver.why_not;
    EXPECT_TRUE(found.devices.empty());
    EXPECT_TRUE(found.peers.empty());
  });
}

TEST(CudaProbe, a_machine_without_cuda_is_told_why) {
  expect_no_driver({{"TENSORBUS_CUDA_DRIVER", "off"}}, "TENSORBUS_CUDA_DRIVER=off");
  expect_no_driver({{"TENSORBUS_CUDA_DRIVER", "/nowhere/libcuda.so.1"}}, "Install NVIDIA's driver");
  expect_no_driver({{"TENSORBUS_CUDA_DRIVER", "libc.so.6"}}, "install a newer one");
  expect_no_driver({{"STANDIN_DEVICES", "0"}}, "No device is visible: see CUDA_VISIBLE_DEVICES");
  expect_no_driver({{"CUDA_VISIBLE_DEVICES", "-1"}}, "No device is visible");
  expect_no_driver({{"STANDIN_FAIL", "cuInit:0:803"}}, "cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH");
  expect_no_driver({{"STANDIN_FAIL", "cuDeviceGetCount:0:999"}}, "cuDeviceGetCount: ");
}

TEST(CudaProbe, a_forked_child_is_told_that_it_is_one) {
  in_process([] {
    ASSERT_TRUE(device::probe_cuda(kPatience).driver.can());
    in_process([] {
      const device::CudaFindings found = device::probe_cuda(kPatience);
      EXPECT_TRUE(found.driver.why_not.starts_with("CUDA was initialised before this process"));
      EXPECT_TRUE(found.devices.empty());
    });
  });
}

}  // namespace
}  // namespace tensorbus
