#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace tensorbus::platform {

// A line for stderr, composed on the stack of a signal handler. Text that does not fit is cut off.
class SignalMessage {
 public:
  SignalMessage& text(std::string_view text) noexcept;
  // Appends a topic or a path, at most its first 200 bytes. Bytes that a terminal cannot show
  // become question marks.
  SignalMessage& name(std::string_view name) noexcept;
  SignalMessage& number(std::size_t number) noexcept;

  // Makes one system call, so that the line is not mixed with the output of other threads.
  void write_to_stderr() const noexcept;

 private:
  std::array<char, 704> text_;
  std::size_t used_ = 0;
};
static_assert(sizeof(SignalMessage) < 768, "an alternate stack may be as small as MINSIGSTKSZ");

}  // namespace tensorbus::platform
