// Fields of a sample. A value that decodes can be encoded, and then decodes to the same value. A
// cursor finds the same values.

#include <bit>
#include <optional>
#include <string>
#include <tensorbus/values/value.hpp>
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

// Returns the value of a token that takes all bytes; empty for a container or an extension.
std::optional<Value> value_of(const internal::PackToken& token) {
  using Kind = internal::PackToken::Kind;
  switch (token.kind) {
    case Kind::kNil:
      return Value();
    case Kind::kBool:
      return Value(token.number != 0);
    case Kind::kUnsigned:
      return Value(token.number);
    case Kind::kSigned:
      return Value(static_cast<std::int64_t>(token.number));
    case Kind::kFloat:
      return Value(std::bit_cast<double>(token.number));
    case Kind::kText:
      return Value(
          std::string(reinterpret_cast<const char*>(token.part.data()), token.part.size()));
    case Kind::kBytes:
      return Value(Value::Bytes(token.part.begin(), token.part.end()));
    default:
      return std::nullopt;
  }
}

void check_token(std::span<const std::byte> bytes) {
  internal::PackCursor cursor(bytes);
  const auto token = cursor.token();
  if (!token || cursor.left() != 0) return;
  // Compared as bytes, because a NaN does not equal itself.
  if (const auto value = value_of(*token)) check(Value::decode(bytes).encode() == value->encode());
}

void run(std::span<const std::byte> bytes) {
  check_cursor(bytes);
  check_token(bytes);
  Value value;
  if (!accepts([&] { value = Value::decode(bytes); })) return;
  (void)value.find("image");
  (void)accepts([&] { (void)value.at("image").as<TensorIndex>(); }, Code::kInvalidArgument);
  // A decoded value can be encoded. Compared as bytes, because a NaN does not equal itself.
  const std::vector<std::byte> written = value.encode();
  const Value again = Value::decode(written);
  check(again.variant().index() == value.variant().index());
  check(again.encode() == written);
  // The encoding is the shortest one, except that float32 becomes float64.
  check(written.size() <= 2 * bytes.size());
}

}  // namespace
}  // namespace tensorbus::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tensorbus::fuzz::run(tensorbus::fuzz::Input(data, size).rest());
  return 0;
}
