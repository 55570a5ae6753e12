#include "capture.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <string_view>

// The calls that a capture forbids in other threads, too: those that are unsafe meanwhile.
namespace standin {
namespace {

constexpr std::array<std::string_view, 7> kUnsafe = {
    "cuMemAlloc_v2",        "cuMemCreate",  "cuMemMap",    "cuMemSetAccess",
    "cuMemHostRegister_v2", "cuMemFree_v2", "cuEventQuery"};

std::atomic<int> captures{0};
thread_local CaptureMode mode = CaptureMode::kGlobal;

}  // namespace

void count_captures(int more) { captures += more; }

bool is_forbidden_by_captures(const char* symbol) {
  return captures > 0 && mode != CaptureMode::kRelaxed &&
         std::find(kUnsafe.begin(), kUnsafe.end(), symbol) != kUnsafe.end();
}

extern "C" Result cuThreadExchangeStreamCaptureMode(CaptureMode* exchanged) {
  return call(__func__, [&](World&) {
    std::swap(*exchanged, mode);
    return Result::kSuccess;
  });
}

}  // namespace standin
