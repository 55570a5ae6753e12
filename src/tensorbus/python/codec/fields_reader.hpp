#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <tensorbus/values/value.hpp>
#include <vector>

#include "tensorbus/python/codec/message_plan.hpp"

namespace tensorbus::python {

// The source of the tensors of a message.
class TensorSource {
 public:
  // Returns the same object every time. Throws Error(kProtocol) if the index is invalid.
  virtual nb::object tensor(std::uint64_t index) = 0;
  // Returns the restorer for records: see Hooks.
  virtual nb::handle restorer() = 0;

 protected:
  ~TensorSource() = default;
};

// Makes Python objects from the fields of a message, in one pass. The bytes are not trusted:
// invalid bytes throw Error(kProtocol). Used with the GIL.
class FieldsReader {
 public:
  FieldsReader(std::span<const std::byte> fields, TensorSource& source, int depth = 0)
      : cursor_(fields), source_(source), depth_(depth) {}

  // Reads one value, which must take all bytes.
  nb::object read_whole();
  // Reads fields by name, and returns an instance of the plan's class. Skips fields that the class
  // does not have, even if this reader does not support their contents. Throws what the plan's
  // received() raises.
  nb::object read_typed(const MessagePlan& plan, nb::handle library);

 private:
  nb::object read();
  nb::object read_list(std::uint64_t count);
  nb::object read_map(std::uint64_t pairs);
  nb::object read_extension(const internal::PackToken& token, std::span<const std::byte> whole);
  nb::object read_tuple(std::span<const std::byte> payload);
  nb::object read_record(std::span<const std::byte> payload);
  bool read_fields(const MessagePlan& plan, std::vector<nb::object>& values);
  void skip();
  internal::PackToken next();
  void check_at_end() const;

  internal::PackCursor cursor_;
  TensorSource& source_;
  int depth_;
};

}  // namespace tensorbus::python
