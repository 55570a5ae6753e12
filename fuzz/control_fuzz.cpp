// Control messages. A message that decodes is encoded again as the same bytes, which fit into a
// datagram.

#include <vector>

#include "fuzz/control_seed.hpp"
#include "fuzz/fuzz.hpp"

namespace tensorbus::fuzz {
namespace {

// Not inline: otherwise, GCC 12 warns of copies beyond the end of memory.
template <typename Message>
[[gnu::noinline]] std::vector<std::byte> written(const Message& message) {
  return link::encode_control(message);
}

void require_grant(std::uint32_t writable) {
  accepts([&] {
    const bool granted = link::grant_of(writable, "writable") == memory::Grant::kWrite;
    check(writable == (granted ? 1U : 0U));
  });
}

template <typename Message>
void decode(std::span<const std::byte> datagram) {
  accepts([&] {
    const auto message = link::decode_control<Message>(datagram);
    const std::vector<std::byte> again = written(message);
    // The header is not compared: decode_control_header() has checked it.
    check(std::ranges::equal(std::span(again).subspan(sizeof(link::ControlHeader)),
                             datagram.subspan(sizeof(link::ControlHeader))));
    const link::ControlHeader header = link::decode_control_header(again);
    check(header.type == Message::kType && header.version == link::kProtocolVersion);
    if constexpr (requires { message.writable; }) require_grant(message.writable);
  });
}

void run(std::span<const std::byte> datagram) {
  link::ControlHeader header;
  if (!accepts([&] { header = link::decode_control_header(datagram); })) return;
  link::for_each_control_message([&]<typename Row>(Row) {
    using Message = typename Row::Message;
    if (header.type == Message::kType) decode<Message>(datagram);
  });
}

}  // namespace
}  // namespace tensorbus::fuzz

// The fuzzer need not guess the first bytes. A first byte of 0 selects a valid header, a first byte
// of 1 a message that decodes. An empty input runs one message of each type.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tensorbus;
  if (size == 0) fuzz::run_each_message({1}, LLVMFuzzerTestOneInput);
  fuzz::Input input(data, size);
  std::vector<std::byte> datagram;
  const std::uint8_t kind = input.byte();
  if (kind == 1) {
    datagram = fuzz::control_seed(input);
  } else if (kind == 0) {
    link::ControlHeader header{.type = static_cast<link::ControlType>(input.byte())};
    const auto body = input.rest();
    header.length = static_cast<std::uint32_t>(body.size());
    datagram.resize(sizeof header);
    std::memcpy(datagram.data(), &header, sizeof header);
    datagram.insert(datagram.end(), body.begin(), body.end());
  } else {
    const auto all = input.rest();
    datagram.assign(all.begin(), all.end());
  }
  fuzz::run(datagram);
  return 0;
}
