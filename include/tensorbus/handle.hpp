#pragma once

#include <tensorbus/c/share.h>

#include <string>
#include <tensorbus/internal/call.hpp>
#include <utility>

namespace tensorbus::inline v0 {

// The name of what somebody shares (share.hpp): a line of text that any means can carry to any
// process of the domain (docs/handles.md says what is in it). It keeps nothing alive.
//
//   std::string line = shared.handle().text();                          // "tensorbus:..."
//   Sample sample = tensorbus::attach(tensorbus::Handle::parse(line));  // in another process
class Handle {
 public:
  // Throws Error(kInvalidArgument) that says what is wrong: cut short, changed, of another version.
  static Handle parse(std::string text) {
    internal::require_done(tb_handle_check(internal::c_text(text, "the handle")));
    return Handle(std::move(text));
  }

  const std::string& text() const noexcept { return text_; }
  bool operator==(const Handle&) const = default;

 private:
  explicit Handle(std::string text) : text_(std::move(text)) {}
  friend class Shared;

  std::string text_;  // there is one for each handle
};

}  // namespace tensorbus::inline v0
