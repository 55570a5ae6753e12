#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tensorbus/content.hpp>
#include <tensorbus/internal/failure.hpp>
#include <tensorbus/internal/message_pack.hpp>
#include <tensorbus/sample.hpp>
#include <tensorbus/values/error.hpp>
#include <tensorbus/values/message.hpp>
#include <tensorbus/values/message_type.hpp>
#include <tensorbus/values/service_error.hpp>
#include <tensorbus/values/value.hpp>
#include <utility>
#include <vector>

// The messages of clients and services. A request is a map: "reply" is the address of the queue for
// the reply; "types" are the definitions of the client's request and reply, "" for any; "data". A
// reply has one key: "data", "error" (the exception's class, text and place) or "mismatch" (a
// text).
namespace tensorbus::inline v0 {
namespace internal {

// The name of the queue for a service's requests. Throws Error(kInvalidArgument) for "".
inline std::string queue_of_service(const std::string& service) {
  if (service.empty()) throw Error(Code::kInvalidArgument, "a service needs a name");
  return "service:" + service;
}

// The request and reply types of a client or a service.
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

// A request or a reply to send. Owns its fields and tensors.
class Packed {
 public:
  Packed(std::vector<std::byte> fields, std::vector<TensorField> tensors)
      : bytes_(std::move(fields)), tensors_(std::move(tensors)) {
    for (const TensorField& tensor : tensors_) message_.tensors.push_back(tensor.view());
    message_.fields = bytes_;
  }
  Packed(Packed&&) noexcept = default;  // the bytes and the tensors stay where they are

  const Message& message() const noexcept { return message_; }

 private:
  std::vector<std::byte> bytes_;
  std::vector<TensorField> tensors_;
  Message message_;
};

// Writes a request or a reply.
class MapWriter {
 public:
  // Also reserves memory for long texts of `bytes` bytes.
  explicit MapWriter(std::size_t items, std::size_t bytes = 0) {
    writer_.reserve(kUsualBytes + bytes);
    writer_.write_map_of(items);
  }
  void write(std::string_view key, const Value& value) {
    writer_.write(key);
    writer_.write(value);
  }
  void write_texts(std::string_view key, std::initializer_list<std::string_view> texts) {
    writer_.write(key);
    writer_.write_list_of(texts.size());
    for (const std::string_view text : texts) writer_.write(text);
  }
  void write_text(std::string_view key, std::string_view text) {
    writer_.write(key);
    writer_.write(text);
  }
  std::vector<std::byte> take() { return writer_.take(); }

 private:
  static constexpr std::size_t kUsualBytes = 128;
  PackWriter writer_{1};  // its values are one level below
};

inline Packed request_of(const std::string& reply, const CallTypes& types, const Content& data) {
  const std::string& request = types.request.definition();
  const std::string& answer = types.reply.definition();
  MapWriter map(3, reply.size() + request.size() + answer.size());
  map.write_text("reply", reply);
  map.write_texts("types", {request, answer});
  map.write("data", data.fields);
  return {map.take(), data.tensors};
}
inline Packed data_answer(Content data) {
  MapWriter map(1);
  map.write("data", data.fields);
  return {map.take(), std::move(data.tensors)};
}
inline Packed error_answer(const Failure& failure) {
  MapWriter map(1);
  map.write_texts("error", {failure.kind, failure.text, failure.trace});
  return {map.take(), {}};
}
inline Packed mismatch_answer(const std::string& why) {
  MapWriter map(1);
  map.write_text("mismatch", why);
  return {map.take(), {}};
}

// Reads a request or a reply without copies. If a key occurs twice, finds the first. Items with
// other keys may be of any kind and depth.
class MapReader {
 public:
  // Throws Error(kProtocol) unless the bytes are one whole value.
  explicit MapReader(std::span<const std::byte> bytes) : bytes_(bytes) {
    PackCursor whole(bytes);
    if (!whole.skip() || whole.left() != 0)
      throw Error(Code::kProtocol, "sample.fields: a malformed request or reply");
  }

  // Returns an item undecoded; nothing if there is none.
  std::optional<PackCursor> find(std::string_view wanted) const noexcept {
    PackCursor at(bytes_);
    for (std::size_t left = at.map().value_or(0); left != 0; --left) {
      PackCursor key = at;
      (void)at.skip();
      const PackCursor value = at;
      (void)at.skip();
      if (key.string() == wanted) return value.without(at);
    }
    return std::nullopt;
  }
  std::optional<std::string_view> text(std::string_view key) const noexcept {
    auto value = find(key);
    return value ? value->string() : std::nullopt;
  }
  // Returns false unless the item is a list of exactly `Count` texts.
  template <std::size_t Count>
  bool texts(std::string_view key, std::array<std::string, Count>& to) const {
    auto list = find(key);
    if (!list || list->list() != Count) return false;
    for (std::string& each : to) {
      const auto text = list->string();
      if (!text) return false;
      each = *text;
    }
    return true;
  }
  // Throws Error(kProtocol) if it is malformed.
  std::optional<Content> content(std::string_view key, const Sample& sample) const {
    const auto value = find(key);
    if (!value) return std::nullopt;
    return Content(PackReader(value->rest(), 1).read_whole(),
                   {sample.tensors().begin(), sample.tensors().end()});
  }

 private:
  std::span<const std::byte> bytes_;
};

// Throws Error(kProtocol) if the sample is not a request.
inline Request read_request(const Sample& sample) {
  const MapReader map(sample.field_bytes());
  const auto reply = map.text("reply");
  auto data = map.content("data", sample);
  Request request;
  if (!reply || !data || !map.texts("types", request.definitions))
    throw Error(Code::kProtocol, "a service received a sample that is not a request");
  request.reply = *reply;
  request.data = *std::move(data);
  return request;
}

// Throws ServiceError, Error(kTypeMismatch), or Error(kProtocol) if it is not a reply.
inline Content read_answer(const std::string& service, const Sample& sample) {
  const MapReader map(sample.field_bytes());
  if (auto data = map.content("data", sample)) return *std::move(data);
  std::array<std::string, 3> error;
  if (map.texts("error", error)) throw ServiceError(service, error[0], error[1], error[2]);
  if (const auto why = map.text("mismatch"))
    throw Error(Code::kTypeMismatch, "service '" + service + "': " + std::string(*why));
  throw Error(Code::kProtocol, "service '" + service + "' sent an invalid reply");
}

// Returns why a reader with this definition cannot read the writer's messages; empty if it can.
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
