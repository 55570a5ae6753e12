// Handles, which any program may have made. A handle that is accepted is written and read again
// without a change, as bytes and as text. All other input is refused.

#include <algorithm>
#include <string>
#include <vector>

#include "fuzz/fuzz.hpp"
#include "tensorbus/bus/share/handle.hpp"

namespace tensorbus::fuzz {
namespace {

void require_same(const bus::Handle& a, const bus::Handle& b) {
  check(a == b && a.tensors == b.tensors && a.described.size() == b.described.size());
  for (std::size_t i = 0; i < a.described.size(); ++i)
    check(a.described[i].layout == b.described[i].layout &&
          a.described[i].offset == b.described[i].offset);
}

void require_sense(const bus::Handle& handle) {
  check(handle.described.size() <=
        std::min<std::size_t>(handle.tensors, bus::Handle::kMaxDescribed));
  require_same(bus::Handle::from_bytes(handle.bytes()), handle);
  const std::string text = handle.text();
  check(std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; }));
  require_same(bus::Handle::parse(text), handle);
}

void read_bytes(std::span<const std::byte> bytes) {
  bus::Handle handle;
  if (accepts([&] { handle = bus::Handle::from_bytes(bytes); }, Code::kInvalidArgument))
    require_sense(handle);
}

void read_text(const std::string& text) {
  bus::Handle handle;
  if (!accepts([&] { handle = bus::Handle::parse(text); }, Code::kInvalidArgument)) return;
  require_sense(handle);
}

std::uint32_t checksum(std::span<const std::byte> bytes) {
  std::uint32_t sum = 2166136261U;
  for (const std::byte byte : bytes) sum = (sum ^ static_cast<std::uint32_t>(byte)) * 16777619U;
  return sum;
}

// Adds a valid beginning and checksum: without them, the rest is not read.
void read_made_up(std::uint8_t tensors, std::span<const std::byte> rest) {
  std::vector<std::byte> bytes = bus::Handle().bytes();
  bytes.resize(8);
  bytes[4] = std::byte{tensors};
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  const std::uint32_t sum = checksum(bytes);
  const auto* from = reinterpret_cast<const std::byte*>(&sum);
  bytes.insert(bytes.end(), from, from + sizeof sum);
  read_bytes(bytes);
}

void run(Input input) {
  const std::uint8_t way = input.byte();
  const auto rest = input.rest();
  if (way % 4 == 0) return read_bytes(rest);
  if (way % 4 == 1) return read_text(std::string(text_of(rest)));
  if (way % 4 == 2) return read_text("tensorbus:" + std::string(text_of(rest)));
  read_made_up(way / 4, rest);
}

}  // namespace
}  // namespace tensorbus::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tensorbus::fuzz::run({data, size});
  return 0;
}
