#pragma once

#include <tensorbus/c/share.h>

#include <optional>
#include <string>
#include <tensorbus/internal/call.hpp>
#include <tensorbus/values/error.hpp>
#include <tensorbus/values/value.hpp>
#include <utility>

namespace tensorbus::inline v0 {
namespace internal {

// Returns the text of a handle in a message; nothing for any other value.
inline std::optional<std::string> handle_text_in(const Value& value) {
  const Value::List parts = record_in(value);
  if (parts.size() != 2 || parts[0] != Value("handle") || !parts[1].is<std::string>()) return {};
  return parts[1].as<std::string>();
}

}  // namespace internal

// The name of a share (share.hpp): a line of text that any channel can carry to any process of the
// domain (format: docs/handles.md). A handle keeps nothing alive. It can be a field of a message.
//
//   std::string line = shared.handle().text();                          // "tensorbus:..."
//   Sample sample = tensorbus::attach(tensorbus::Handle::parse(line));  // in another process
//
//   publisher.publish(Value::Map{{"weights", shared.handle()}}, {});
//   Handle weights = Handle::of(sample.fields().at("weights"));         // in another process
class Handle {
 public:
  // Makes a handle that names nothing, e.g. for a struct member that is set later.
  Handle() = default;
  // Throws Error(kInvalidArgument) with the reason if the text was cut short or changed, or is of
  // another version.
  static Handle parse(std::string text) {
    internal::require_done(tb_handle_check(internal::c_text(text, "the handle")));
    return Handle(std::move(text));
  }
  // Returns the handle in a field. Throws Error(kInvalidArgument) for any other value.
  static Handle of(const Value& field) {
    auto text = internal::handle_text_in(field);
    if (!text)
      throw Error(Code::kInvalidArgument,
                  "expected a handle, this is " + internal::a_value_of(field.variant().index()));
    return parse(*std::move(text));
  }
  // Throws Error(kInvalidArgument) for a handle that names nothing.
  operator Value() const {
    if (text_.empty()) throw Error(Code::kInvalidArgument, "this handle is empty");
    return Value::Extension{internal::kRecordType, Value(Value::List{"handle", text_}).encode()};
  }

  const std::string& text() const noexcept { return text_; }
  bool operator==(const Handle&) const = default;

 private:
  explicit Handle(std::string text) : text_(std::move(text)) {}
  friend class Shared;

  std::string text_;  // equal handles have equal texts
};

}  // namespace tensorbus::inline v0
