// Control messages: whatever decodes is written again as the bytes that came, and says so little
// that a datagram holds it.

#include <string>
#include <vector>

#include "fuzz/fuzz.hpp"
#include "tensorbus/link/wire/control.hpp"

namespace tensorbus::fuzz {
namespace {

// Not inline: there, GCC 12 sees copies that reach beyond all memory.
template <typename Message>
[[gnu::noinline]] std::vector<std::byte> written(const Message& message) {
  return link::encode_control(message);
}

template <typename Message>
void decode(std::span<const std::byte> datagram) {
  accepts([&] {
    const std::vector<std::byte> again = written(link::decode_control<Message>(datagram));
    // The header is not the message's: decode_control_header() has judged it.
    check(std::ranges::equal(std::span(again).subspan(sizeof(link::ControlHeader)),
                             datagram.subspan(sizeof(link::ControlHeader))));
    const link::ControlHeader header = link::decode_control_header(again);
    check(header.type == Message::kType && header.version == link::kProtocolVersion);
  });
}

void run(std::span<const std::byte> datagram) {
  link::ControlHeader header;
  if (!accepts([&] { header = link::decode_control_header(datagram); })) return;
  switch (header.type) {
    case link::ControlType::kHello:
      return decode<link::Hello>(datagram);
    case link::ControlType::kSubscribe:
      return decode<link::Subscribe>(datagram);
    case link::ControlType::kAccepted:
      return decode<link::Accepted>(datagram);
    case link::ControlType::kRefused:
      return decode<link::Refused>(datagram);
    case link::ControlType::kSegment:
      decode<link::SegmentMessage>(datagram);
      accepts([&] {
        const auto writable = link::decode_control<link::SegmentMessage>(datagram).writable;
        const bool granted = link::grant_of(writable, "writable") == memory::Grant::kWrite;
        check(writable == (granted ? 1U : 0U));
      });
      return;
    case link::ControlType::kAttach:
      return decode<link::Attach>(datagram);
    case link::ControlType::kClaim:
      return decode<link::Claim>(datagram);
    case link::ControlType::kStage:
      return decode<link::Stage>(datagram);
    case link::ControlType::kStaged:
      return decode<link::Staged>(datagram);
    case link::ControlType::kHandOver:
      return decode<link::HandOver>(datagram);
    case link::ControlType::kLent:
      return decode<link::Lent>(datagram);
    case link::ControlType::kHanded:
      return decode<link::Handed>(datagram);
    case link::ControlType::kDenied:
      return decode<link::Denied>(datagram);
    case link::ControlType::kReturn:
      return decode<link::Return>(datagram);
    case link::ControlType::kPut:
      return decode<link::Put>(datagram);
    case link::ControlType::kGet:
      return decode<link::Get>(datagram);
    case link::ControlType::kQueue:
      return decode<link::QueueCall>(datagram);
    case link::ControlType::kCancel:
      return decode<link::Cancel>(datagram);
    case link::ControlType::kReply:
      return decode<link::Reply>(datagram);
    case link::ControlType::kFile:
      return decode<link::FileMessage>(datagram);
    case link::ControlType::kDeviceSegment:
      return decode<link::DeviceSegment>(datagram);
    case link::ControlType::kDeviceClosed:
      return decode<link::DeviceClosed>(datagram);
    case link::ControlType::kDeviceExport:
      return decode<link::DeviceExport>(datagram);
    case link::ControlType::kPin:
      return decode<link::Pin>(datagram);
    default:  // all others name one link or segment
      decode<link::Event>(datagram);
  }
}

}  // namespace
}  // namespace tensorbus::fuzz

// The first bytes of the header need not be guessed: a zero byte in front asks for a right one.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tensorbus;
  fuzz::Input input(data, size);
  std::vector<std::byte> datagram;
  if (input.byte() == 0) {
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
