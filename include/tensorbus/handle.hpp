#pragma once

#include <tensorbus/c/share.h>

#include <string>
#include <tensorbus/internal/call.hpp>
#include <utility>

namespace tensorbus::inline v0 {

// The name of a share (share.hpp): a line of text that any channel can carry to any process of the
// domain (docs/handles.md has the format). It keeps nothing alive.
//
//   std::string line = shared.handle().text();                          // "tensorbus:..."
//   Sample sample = tensorbus::attach(tensorbus::Handle::parse(line));  // in another process
class Handle {
 public:
  // Throws Error(kInvalidArgument) that says why: cut short, changed, another version.
  static Handle parse(std::string text) {
    internal::require_done(tb_handle_check(internal::c_text(text, "the handle")));
    return Handle(std::move(text));
  }

  const std::string& text() const noexcept { return text_; }
  bool operator==(const Handle&) const = default;

 private:
  explicit Handle(std::string text) : text_(std::move(text)) {}
  friend class Shared;

  std::string text_;  // each handle has one text only
};

}  // namespace tensorbus::inline v0
