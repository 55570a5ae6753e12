#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tensorbus/values/error.hpp>
#include <utility>

namespace tensorbus::inline v0 {

// The type of messages: a name, and the names and types of the fields. The grammar of a definition
// is in docs/messages.md:
//
//   robot.Detection
//   boxes: array
//   label: str = ...
//
// The fields are sorted by name; "= ..." marks a field that a message may leave out.
class MessageType {
 public:
  // The type of any message.
  MessageType() = default;
  // Throws Error(kInvalidArgument) for an invalid definition.
  explicit MessageType(std::string definition);

  bool is_any() const noexcept { return fingerprint_ == 0; }
  std::string_view name() const noexcept;
  const std::string& definition() const noexcept { return definition_; }
  // 64-bit FNV-1a (Fowler, Noll and Vo) of the definition without its "= ..."; 0: any message.
  std::uint64_t fingerprint() const noexcept { return fingerprint_; }

  // Returns why a reader of this type cannot read messages of type `written`; empty if it can. It
  // can if the names are equal, and `written` has each field of this type with the same type, or
  // lacks a field that may be left out. Other fields of `written` are ignored.
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

namespace internal {

inline constexpr std::string_view kLeftOut = " = ...";

// Iterates over the lines of a text.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}
  bool next(std::string_view& line) noexcept {
    if (at_end_) return false;
    const std::size_t end = rest_.find('\n');
    line = rest_.substr(0, end);
    at_end_ = end == std::string_view::npos;
    rest_.remove_prefix(at_end_ ? rest_.size() : end + 1);
    return true;
  }

 private:
  std::string_view rest_;
  bool at_end_ = false;
};

inline std::string_view without_default(std::string_view line) {
  if (line.ends_with(kLeftOut)) line.remove_suffix(kLeftOut.size());
  return line;
}

inline std::uint64_t fnv1a(std::uint64_t state, std::string_view text) {
  for (const char byte : text)
    state = (state ^ static_cast<unsigned char>(byte)) * std::uint64_t{0x100000001b3};
  return state;
}

inline std::uint64_t fingerprint_of(std::string_view definition) {
  std::uint64_t state = 0xcbf29ce484222325;
  Lines lines(definition);
  std::string_view line;
  lines.next(line);  // the name, which may end like a default
  state = fnv1a(state, line);
  while (lines.next(line)) state = fnv1a(fnv1a(state, "\n"), without_default(line));
  return std::max<std::uint64_t>(state, 1);
}

[[noreturn]] inline void refuse_definition(std::string_view line) {
  throw Error(Code::kInvalidArgument,
              "no definition of a message type: \"" + std::string(line.substr(0, 100)) +
                  "\": expected a name, and \"field: type\" for each field");
}

}  // namespace internal

inline MessageType::MessageType(std::string definition) : definition_(std::move(definition)) {
  if (name().empty() || name().find(": ") != std::string_view::npos)
    internal::refuse_definition(name());
  fields();
  fingerprint_ = internal::fingerprint_of(definition_);
}

inline std::string_view MessageType::name() const noexcept {
  return std::string_view(definition_).substr(0, definition_.find('\n'));
}

inline std::map<std::string_view, MessageType::Field> MessageType::fields() const {
  std::map<std::string_view, Field> fields;
  internal::Lines lines(definition_);
  std::string_view line;
  lines.next(line);  // the name
  while (lines.next(line)) {
    const std::string_view field = internal::without_default(line);
    const std::size_t colon = field.find(": ");
    if (colon == 0 || colon == std::string_view::npos || colon + 2 == field.size())
      internal::refuse_definition(line);
    const bool is_new = fields
                            .emplace(field.substr(0, colon),
                                     Field{field.substr(colon + 2), field.size() != line.size()})
                            .second;
    if (!is_new) internal::refuse_definition(line);
  }
  return fields;
}

inline std::string MessageType::why_not(const MessageType& written) const {
  if (is_any() || written.is_any() || fingerprint_ == written.fingerprint_) return {};
  if (name() != written.name())
    return "expected " + std::string(name()) + ", published is " + std::string(written.name());
  const auto theirs = written.fields();
  for (const auto& [field, wanted] : fields()) {
    const auto found = theirs.find(field);
    const std::string what = std::string(name()) + "." + std::string(field);
    if (found == theirs.end() && !wanted.may_be_left_out)
      return what + " is not published, and has no default";
    if (found != theirs.end() && found->second.type != wanted.type)
      return what + ": expected " + std::string(wanted.type) + ", published is " +
             std::string(found->second.type);
  }
  return {};
}

}  // namespace tensorbus::inline v0
