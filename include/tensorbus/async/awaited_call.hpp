#pragma once

#include <tensorbus/async/task.hpp>
#if defined(__cpp_impl_coroutine)
#include <optional>
#include <tensorbus/async/service_call.hpp>
#include <tensorbus/client.hpp>
#include <tensorbus/content.hpp>
#include <tensorbus/internal/calls.hpp>
#include <tensorbus/typed_message.hpp>
#include <type_traits>
#include <utility>

namespace tensorbus::inline v0 {
namespace internal {

// Waits for the reply of a service: a Content, or a struct.
template <typename Reply>
class AwaitedCall final : public Awaited {
 public:
  AwaitedCall(const Client& client, const CallTypes& types, const Content& request,
              Client::Timeout timeout)
      : call_(client, types, request, timeout) {}

  int descriptor() const noexcept override { return call_.descriptor(); }
  Reply result() {
    require_success();
    if constexpr (std::is_same_v<Reply, Content>)
      return *std::move(reply_);
    else
      return read_message<Reply>(*reply_);
  }

 private:
  bool find() override { return (reply_ = call_.look()).has_value(); }

  ServiceCall call_;
  std::optional<Content> reply_;
};

}  // namespace internal
}  // namespace tensorbus::inline v0
#endif
