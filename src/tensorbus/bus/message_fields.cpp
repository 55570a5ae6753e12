#include "tensorbus/bus/message_fields.hpp"

namespace tensorbus {
namespace {

constexpr std::int8_t kRecord = 3;  // the extension type
constexpr std::string_view kMessage = "message";

}  // namespace

const Tensor& TensorField::tensor() const {
  if (!received_) throw Error(Code::kInvalidArgument, "this field was not received");
  return *received_;
}

namespace internal {

Value Outgoing::add(const TensorField& field, TensorFlags library) {
  tensors.push_back(field.view());
  tensors.back().layout.flags = tensors.back().layout.flags | library;
  return TensorIndex{static_cast<std::uint32_t>(tensors.size() - 1)};
}

Tensor Incoming::at(const Value& value) const {
  if (!value.is<TensorIndex>()) throw_unexpected("a tensor");
  const std::uint32_t index = value.as<TensorIndex>().index;
  if (index >= tensors.size())
    throw Error(Code::kProtocol, "there is no tensor " + std::to_string(index));
  return tensors[index];
}

void throw_unexpected(std::string_view expected) {
  throw Error(Code::kTypeMismatch, "expected " + std::string(expected));
}

void rethrow_in_field(std::string_view field, const Error& error) {
  const std::string what(error.what());
  const bool deeper = what.starts_with(".");
  throw Error(error.code(), "." + std::string(field) + (deeper ? "" : ": ") + what);
}

void rethrow_in_type(std::string_view type, const Error& error) {
  const std::string what(error.what());
  throw Error(error.code(), what.starts_with(".") ? std::string(type) + what : what);
}

std::string sorted_union(std::string one, std::string other) {
  if (other < one) std::swap(one, other);
  return one + "|" + other;
}

Value record_of(std::string_view type, Value fields) {
  const Value record = Value::List{std::string(kMessage), std::string(type), std::move(fields)};
  return Value::Extension{kRecord, record.encode()};
}

Value fields_of_record(std::string_view type, const Value& value) {
  if (value.is<Value::Map>()) return value;  // of who has no types
  if (value.is<Value::Extension>() && value.as<Value::Extension>().type == kRecord) {
    const Value record = Value::decode(value.as<Value::Extension>().bytes);
    if (record.is<Value::List>()) {
      const auto& parts = record.as<Value::List>();
      if (parts.size() == 3 && parts[0] == Value(std::string(kMessage)) &&
          parts[1] == Value(std::string(type)))
        return parts[2];
    }
  }
  throw_unexpected(type);
}

}  // namespace internal
}  // namespace tensorbus
