#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tensorbus/internal/message_field.hpp>
#include <tensorbus/message_fields.hpp>
#include <tensorbus/tensor.hpp>
#include <tensorbus/values/error.hpp>
#include <tensorbus/values/message_struct.hpp>
#include <tensorbus/values/value.hpp>
#include <utility>
#include <vector>

namespace tensorbus::inline v0 {

// The request or reply of a service: fields as a tree, in which TensorIndex{i} stands for
// tensors[i]. Received content keeps the leases of its tensors, and can be sent again. Copies refer
// to the same tensors.
//
//   tensorbus::Content request(Value::Map{{"image", TensorIndex{0}}, {"id", 7}}, {loan.view()});
//   std::int64_t id = reply.fields.at("id").as<std::int64_t>();
//   auto scores = reply.tensor("scores").as<float>();
//
// A tensor to send is a TensorView (its memory must stay until it is sent), a loan, or a received
// tensor. Tensors in memory of the bus are sent by reference, all others are copied once.
struct Content {
  // Fields and the tensors that they refer to. Without arguments: Python's None.
  Content(Value tree = {}, std::vector<TensorField> of_tree = {})
      : fields(std::move(tree)), tensors(std::move(of_tree)) {}
  // A single tensor, without fields.
  Content(TensorField tensor) : fields(TensorIndex{0}), tensors{std::move(tensor)} {}
  // A struct declared by TENSORBUS_MESSAGE; the content keeps a copy of it.
  template <IsMessageStruct Struct>
  explicit Content(const Struct& message);

  // Returns the only tensor. Throws Error(kInvalidArgument) unless there is exactly one.
  const Tensor& tensor() const&;
  // Returns the tensor at this key of the fields. Throws Error(kInvalidArgument) if there is none.
  const Tensor& tensor(std::string_view key) const&;
  // A temporary, such as `client.call(...)`, gives tensors of their own, which keep their memory.
  Tensor tensor() && { return std::as_const(*this).tensor(); }
  Tensor tensor(std::string_view key) && { return std::as_const(*this).tensor(key); }

  Value fields;
  std::vector<TensorField> tensors;
};

template <IsMessageStruct Struct>
Content::Content(const Struct& message) {
  const auto kept = std::make_shared<const Struct>(message);
  internal::Outgoing outgoing;
  fields = internal::write_struct(outgoing, *kept);
  for (TensorView& view : outgoing.tensors) tensors.emplace_back(std::move(view), kept);
}

inline const Tensor& Content::tensor() const& {
  if (tensors.size() != 1)
    throw Error(Code::kInvalidArgument,
                "there are " + std::to_string(tensors.size()) + " tensors: use tensors");
  return tensors.front().tensor();
}

inline const Tensor& Content::tensor(std::string_view key) const& {
  const std::uint32_t index = fields.at(key).as<TensorIndex>().index;
  if (index >= tensors.size())
    throw Error(Code::kProtocol, "there is no tensor " + std::to_string(index));
  return tensors[index].tensor();
}

// Reads a struct. Throws Error(kTypeMismatch) if a field is missing or has another type; the text
// names the field.
template <IsMessageStruct Struct>
Struct read_message(const Content& content) {
  std::vector<Tensor> tensors;
  for (const TensorField& field : content.tensors) tensors.push_back(field.tensor());
  return internal::read_message<Struct>(tensors, content.fields);
}

}  // namespace tensorbus::inline v0
