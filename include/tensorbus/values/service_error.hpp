#pragma once

#include <string>
#include <tensorbus/values/error.hpp>
#include <utility>

namespace tensorbus::inline v0 {

// Thrown in the client if the service's callback failed: Error(kService) with details.
//
//   try {
//     reply = client.call(request);
//   } catch (const tensorbus::ServiceError& error) {
//     std::cerr << error.what() << '\n' << error.trace();
//   }
class TENSORBUS_SEEN ServiceError : public Error {
 public:
  ServiceError(const std::string& service, std::string kind, std::string text, std::string trace)
      : Error(Code::kService, "service '" + service + "' " +
                                  (trace.empty() ? "refused the request" : "raised " + kind) +
                                  ": " + text),
        kind_(std::move(kind)),
        text_(std::move(text)),
        trace_(std::move(trace)) {}

  // The class of the exception, e.g. "ValueError" or "std::out_of_range"; for an Error its code,
  // e.g. "OutOfMemory".
  const std::string& kind() const noexcept { return kind_; }
  const std::string& text() const noexcept { return text_; }
  // Where it was raised: Python's traceback, or for C++ a line for each nested exception.
  // Empty if the service has refused the request.
  const std::string& trace() const noexcept { return trace_; }

 private:
  std::string kind_;
  std::string text_;
  std::string trace_;
};

}  // namespace tensorbus::inline v0
