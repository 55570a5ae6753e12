// Fields of a sample: what decodes can be written, and what was written decodes to the same. What a
// cursor finds is what decodes.

#include <tensorbus/value.hpp>
#include <vector>

#include "fuzz/fuzz.hpp"

namespace tensorbus::fuzz {
namespace {

void check_cursor(std::span<const std::byte> bytes) {
  internal::PackCursor text(bytes);
  if (const auto found = text.string(); found && text.left() == 0)
    check(Value::decode(bytes) == Value(std::string(*found)));
  internal::PackCursor binary(bytes);
  if (const auto found = binary.bytes(); found && binary.left() == 0)
    check(Value::decode(bytes) == Value(Value::Bytes(found->begin(), found->end())));
  internal::PackCursor tensor(bytes);
  if (const auto found = tensor.tensor(); found && tensor.left() == 0)
    check(Value::decode(bytes) == Value(TensorIndex{*found}));
}

void run(std::span<const std::byte> bytes) {
  check_cursor(bytes);
  Value value;
  if (!accepts([&] { value = Value::decode(bytes); })) return;
  (void)value.find("image");
  (void)accepts([&] { (void)value.at("image").as<TensorIndex>(); }, Code::kInvalidArgument);
  // Whatever was read can be written. Compared as bytes, since a NaN equals nothing.
  const std::vector<std::byte> written = value.encode();
  const Value again = Value::decode(written);
  check(again.variant().index() == value.variant().index());
  check(again.encode() == written);
  // The shortest form of everything, but for float32, which becomes float64.
  check(written.size() <= 2 * bytes.size());
}

}  // namespace
}  // namespace tensorbus::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tensorbus::fuzz::run(tensorbus::fuzz::Input(data, size).rest());
  return 0;
}
