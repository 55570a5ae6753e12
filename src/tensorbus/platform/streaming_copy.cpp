#include "tensorbus/platform/streaming_copy.hpp"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)

#include <emmintrin.h>

#include <cstdint>

namespace tensorbus::platform {
namespace {

constexpr std::size_t kLine = 64;

// With fewer bytes, too many of them lie in partly written cache lines.
constexpr std::size_t kWorthAligning = 8 * kLine;

// Writes whole cache lines: a partly written line needs several writes to memory.
void stream_lines(std::byte* target, const std::byte* source, std::size_t bytes) noexcept {
  for (std::size_t at = 0; at < bytes; at += kLine) {
    const auto* const from = reinterpret_cast<const __m128i*>(source + at);
    auto* const to = reinterpret_cast<__m128i*>(target + at);
    const __m128i first = _mm_loadu_si128(from);
    const __m128i second = _mm_loadu_si128(from + 1);
    const __m128i third = _mm_loadu_si128(from + 2);
    const __m128i fourth = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, first);
    _mm_stream_si128(to + 1, second);
    _mm_stream_si128(to + 2, third);
    _mm_stream_si128(to + 3, fourth);
  }
}

}  // namespace

void streaming_copy(std::byte* target, const std::byte* source, std::size_t bytes) noexcept {
  if (bytes < kWorthAligning) {
    std::copy_n(source, bytes, target);  // memcpy() does not accept null, even for 0 bytes
    return;
  }
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(target) % kLine;
  const std::size_t lines = (bytes - before) / kLine * kLine;
  std::memcpy(target, source, before);
  stream_lines(target + before, source + before, lines);
  std::memcpy(target + before + lines, source + before + lines, bytes - before - lines);
}

void end_streaming() noexcept { _mm_sfence(); }

}  // namespace tensorbus::platform

#else

namespace tensorbus::platform {

void streaming_copy(std::byte* target, const std::byte* source, std::size_t bytes) noexcept {
  std::copy_n(source, bytes, target);
}

void end_streaming() noexcept {}

}  // namespace tensorbus::platform

#endif
