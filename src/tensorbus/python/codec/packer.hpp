#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <tensorbus/values/value.hpp>
#include <utility>
#include <vector>

#include "tensorbus/python/codec/message_plan.hpp"
#include "tensorbus/python/outgoing.hpp"

namespace tensorbus::python {

// Packs a message in one pass: adds its tensors to an Outgoing, and writes the rest as MessagePack
// (the table of extensions is in tensorbus/_codec/fields.py). Python converts rare values. For one
// message, with the GIL. Packing may run code of the program, which may change the containers. So
// the packer holds references to their items. In a Python without a GIL, a dict or a list is locked
// while its items are packed, except while code of the program runs. So a message never has a
// container in the middle of a change by another thread.
class Packer {
 public:
  explicit Packer(Outgoing& tensors) : native_(&tensors) {}
  // `tensors` is an Outgoing, or an object with its methods. Python adds all tensors of the latter.
  explicit Packer(nb::object tensors);

  // Returns the fields of a message; empty if it is a single tensor. Throws what Python raises for
  // an unsupported value.
  std::vector<std::byte> pack_message(nb::handle message);
  // Like pack_message(), for a message class.
  std::vector<std::byte> pack_typed(nb::handle message, const MessagePlan& plan);
  // Returns the MessagePack of one value. Errors do not name its place in a message.
  std::vector<std::byte> pack_value(nb::handle value);

  Outgoing& tensors() noexcept { return *native_; }

 private:
  void pack(nb::handle value, int depth);
  void pack_item(nb::handle item, std::size_t left, int depth);
  void pack_int(nb::handle value);
  void pack_complex(nb::handle value);
  void pack_text(nb::handle value);
  void pack_bytes(nb::handle value);
  void pack_dict(nb::handle dict, int depth);
  bool pack_map(nb::handle dict, int depth);
  void pack_pairs(nb::handle dict, int depth);
  void pack_list(nb::handle list, int depth);
  void pack_tuple(nb::handle tuple, int depth);
  bool pack_again(nb::handle value);
  void pack_rare(nb::handle value, int depth);
  void pack_record(const nb::tuple& record, nb::handle value, int depth);
  void pack_fields(nb::handle message, const MessagePlan& plan);
  std::vector<std::byte> take_fields();
  void check_depth(nb::handle value, int depth) const;
  const nb::object& python_tensors();

  Outgoing* native_;
  nb::object object_;  // the object of `native_`, once Python needs it; or its replacement
  internal::PackWriter writer_;
  // Values that Python converted, and their bytes, for values that occur again.
  std::vector<std::pair<nb::object, std::vector<std::byte>>> rare_;
  IndexOf rare_indices_;
};

}  // namespace tensorbus::python
