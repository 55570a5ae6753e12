#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace tensorbus::platform {

// A line for stderr, put together on the stack of a signal handler. What does not fit is cut.
class SignalMessage {
 public:
  SignalMessage& text(std::string_view text) noexcept;
  // What somebody else chose: a topic, a path. Only what a terminal can be given, the rest as
  // question marks; of a longer one the first 200 bytes.
  SignalMessage& name(std::string_view name) noexcept;
  SignalMessage& number(std::size_t number) noexcept;

  // At once, so that it is not mixed with what other threads write.
  void write_to_stderr() const noexcept;

 private:
  std::array<char, 704> text_;
  std::size_t used_ = 0;
};
static_assert(sizeof(SignalMessage) < 768, "an alternate stack may be as small as MINSIGSTKSZ");

}  // namespace tensorbus::platform
