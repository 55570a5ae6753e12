#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <tensorbus/content.hpp>
#include <tensorbus/error.hpp>
#include <tensorbus/internal/failure.hpp>
#include <tensorbus/message.hpp>
#include <tensorbus/message_type.hpp>
#include <tensorbus/sample.hpp>
#include <tensorbus/service_error.hpp>
#include <tensorbus/value.hpp>
#include <vector>

// The messages of clients and services. A request is a map: "reply" is the address of the queue for
// the answer; "types" are the definitions of the client's request and reply, "" for any; "data". An
// answer has one key: "data", "error" (the exception's class, its text, and where it was raised) or
// "mismatch", a text.
namespace tensorbus::inline v0 {
namespace internal {

// The name of the queue for a service's requests. Throws Error(kInvalidArgument) for "".
inline std::string queue_of_service(const std::string& service) {
  if (service.empty()) throw Error(Code::kInvalidArgument, "a service needs a name");
  return "service:" + service;
}

// The types of the requests and replies of one side.
struct CallTypes {
  MessageType request;
  MessageType reply;
};

// A request as the service reads it.
struct Request {
  std::string reply;
  std::array<std::string, 2> definitions;
  Content data;
};

// A message of a content; owns its encoded fields.
class Packed {
 public:
  explicit Packed(const Content& content) : bytes_(content.fields.encode()) {
    for (const TensorField& tensor : content.tensors) message_.tensors.push_back(tensor.view());
    message_.fields = bytes_;
  }
  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;

  // Refers to memory that the content keeps.
  const Message& message() const noexcept { return message_; }

 private:
  std::vector<std::byte> bytes_;
  Message message_;
};

inline Content request_of(const std::string& reply, const CallTypes& types, const Content& data) {
  return {Value::Map{
              {"reply", reply},
              {"types", Value::List{types.request.definition(), types.reply.definition()}},
              {"data", data.fields},
          },
          data.tensors};
}
inline Content data_answer(const Content& data) {
  return {Value::Map{{"data", data.fields}}, data.tensors};
}
inline Content error_answer(const Failure& failure) {
  return Value(Value::Map{{"error", Value::List{failure.kind, failure.text, failure.trace}}});
}
inline Content mismatch_answer(const std::string& why) {
  return Value(Value::Map{{"mismatch", why}});
}

// Reads a list of exactly `Count` strings; false for anything else.
template <std::size_t Count>
bool read_texts(const Value* value, std::array<std::string, Count>& texts) {
  if (value == nullptr || !value->is<Value::List>()) return false;
  const auto& items = value->as<Value::List>();
  if (items.size() != Count) return false;
  for (std::size_t i = 0; i < Count; ++i) {
    if (!items[i].is<std::string>()) return false;
    texts[i] = items[i].as<std::string>();
  }
  return true;
}

inline Content received(const Value& data, const Sample& sample) {
  return {data, {sample.tensors().begin(), sample.tensors().end()}};
}

// Throws Error(kProtocol) if the sample is not a request.
inline Request read_request(const Sample& sample) {
  const Value fields = sample.fields();
  const Value* const reply = fields.find("reply");
  const Value* const data = fields.find("data");
  Request request;
  if (reply == nullptr || !reply->is<std::string>() || data == nullptr ||
      !read_texts(fields.find("types"), request.definitions))
    throw Error(Code::kProtocol, "what came to a service is no request");
  request.reply = reply->as<std::string>();
  request.data = received(*data, sample);
  return request;
}

// Throws ServiceError, Error(kTypeMismatch), and Error(kProtocol) if it is not an answer.
inline Content read_answer(const std::string& service, const Sample& sample) {
  const Value fields = sample.fields();
  if (const Value* const data = fields.find("data")) return received(*data, sample);
  std::array<std::string, 3> error;
  if (read_texts(fields.find("error"), error))
    throw ServiceError(service, error[0], error[1], error[2]);
  const Value* const mismatch = fields.find("mismatch");
  if (mismatch != nullptr && mismatch->is<std::string>())
    throw Error(Code::kTypeMismatch, "service '" + service + "': " + mismatch->as<std::string>());
  throw Error(Code::kProtocol, "what service '" + service + "' answered is no answer");
}

// Returns why a reader of one definition cannot read messages of the writer's; empty if it can.
// Throws Error(kInvalidArgument) for an invalid definition.
inline std::string why_unreadable(std::string_view what, const std::string& writer,
                                  const std::string& reader) {
  if (writer.empty() || reader.empty() || writer == reader) return {};
  const std::string why = MessageType(reader).why_not(MessageType(writer));
  if (why.empty()) return {};
  return "its " + std::string(what) + " is of another type: " + why + "\nsent as\n" + writer +
         "\nread as\n" + reader;
}

// Returns why a service of these types cannot serve the client; empty if it can.
inline std::string why_not(const CallTypes& ours, const std::array<std::string, 2>& theirs) {
  const std::string why = why_unreadable("request", theirs[0], ours.request.definition());
  return why.empty() ? why_unreadable("reply", ours.reply.definition(), theirs[1]) : why;
}

}  // namespace internal
}  // namespace tensorbus::inline v0
