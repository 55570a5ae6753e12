#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tensorbus/content.hpp>
#include <tensorbus/sample.hpp>
#include <tensorbus/tensor.hpp>
#include <tensorbus/values/value.hpp>
#include <utility>
#include <vector>

namespace tensorbus::cli {

// A part of a message, or all of it: a value, and the tensors to which it refers. Each function
// throws Error(kProtocol) for a message of more than 64 levels, and for malformed records.
class Message {
 public:
  using Field = std::pair<std::string, Message>;     // its name and its value
  using Cell = std::pair<std::string, std::string>;  // its path and its text

  // The tensors must live longer.
  Message(Value value, std::span<const Tensor> tensors, std::size_t depth = 0);
  explicit Message(const Sample& sample);

  const Value& value() const { return value_; }
  // Returns the tensor, if the message is one.
  const Tensor* tensor() const;
  // Returns the fields of a typed message, or the items of a map, by name; nothing for other
  // values.
  std::optional<std::vector<Field>> fields() const;
  // Returns the part at a path of names and indices with dots between them, "poses.0.x"; nothing if
  // there is none.
  std::optional<Message> at(std::string_view path) const;

  // Returns a line for each value.
  std::vector<std::string> lines() const;
  // Returns it as JSON; tensors are their figures.
  std::string json() const;
  // Returns a row of a table: each value, and each element of a small tensor, by its path.
  std::vector<Cell> cells(const std::string& name = "") const;

 private:
  std::optional<std::vector<Message>> items() const;  // of a list or tuple
  bool is_inner() const;
  void add_lines(std::vector<std::string>& lines, const std::string& name,
                 const std::string& indent) const;
  void add_json(std::string& text) const;
  void add_cells(std::vector<Cell>& cells, const std::string& name) const;
  Message part(const Value& value) const { return {value, tensors_, depth_ + 1}; }

  Value value_;
  std::span<const Tensor> tensors_;
  std::size_t depth_ = 0;  // levels above it
};

}  // namespace tensorbus::cli
