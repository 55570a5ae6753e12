#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "tensorbus/platform/export.hpp"

namespace tensorbus {

// The type of messages: a name, and the names and types of fields. docs/messages.md has the grammar
// of a definition:
//
//   robot.Detection
//   boxes: array
//   label: str = ...
//
// The fields are in the order of their names; "= ..." stands after one that a message may leave
// out.
class TENSORBUS_API MessageType {
 public:
  // Any message.
  MessageType() = default;
  // Throws Error(kInvalidArgument) for what is no definition.
  explicit MessageType(std::string definition);

  bool is_any() const noexcept { return fingerprint_ == 0; }
  std::string_view name() const noexcept;
  const std::string& definition() const noexcept { return definition_; }
  // 64-bit FNV-1a (Fowler, Noll and Vo) of the definition without its "= ...". 0: any message.
  std::uint64_t fingerprint() const noexcept { return fingerprint_; }

  // Why who expects this type cannot read messages of type `written`; empty if it can: every field
  // is there with the same type, or may be left out. Others are of no interest.
  std::string why_not(const MessageType& written) const;

 private:
  struct Field {
    std::string_view type;
    bool may_be_left_out = false;
  };
  std::map<std::string_view, Field> fields() const;

  std::string definition_;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace tensorbus
