#pragma once

#include <tensorbus/internal/message_field.hpp>
#include <tensorbus/message_fields.hpp>
#include <tensorbus/publisher.hpp>
#include <tensorbus/sample.hpp>
#include <tensorbus/values/message_struct.hpp>

namespace tensorbus::inline v0 {

// Structs as messages: the same types as Python dataclasses with the same name and fields.
//
//   struct Pose {
//     tensorbus::ArrayField position;
//     std::string frame_id = "map";
//   };
//   TENSORBUS_MESSAGE(Pose, "robot.Pose", position, frame_id)
//
//   tensorbus::Publisher publisher("pose", {.type = tensorbus::message_type<Pose>()});
//   publish(publisher, Pose{tensorbus::TensorView::of(xyz.data(), {3})});
//
//   tensorbus::Subscriber subscriber("pose", {.type = tensorbus::message_type<Pose>()});
//   if (auto sample = subscriber.receive(std::chrono::seconds(1)))
//     use(read_message<Pose>(*sample).position.tensor().as<float>());
//
// Fields are bool, integers, float and double, std::string, std::vector<std::byte> (bytes),
// ArrayField, TorchField, Value (anything without tensors), enums declared by TENSORBUS_ENUM, other
// declared structs, and std::optional, std::vector, std::array (a tuple) and std::map of all of
// these.

// Returns the type of a struct, for PublisherOptions and SubscriberOptions.
template <IsMessageStruct Struct>
MessageType message_type() {
  return internal::type_of_struct<Struct>();
}

// Publishes a struct. Throws Error(kTypeMismatch) if the publisher has another type.
template <IsMessageStruct Struct>
Published publish(Publisher& publisher, const Struct& message) {
  static const MessageType type = message_type<Struct>();
  if (!publisher.type().is_any() && publisher.type().fingerprint() != type.fingerprint())
    throw Error(Code::kTypeMismatch, "the publisher of \"" + publisher.topic() + "\" is of type " +
                                         std::string(publisher.type().name()) +
                                         ", the message is of type " + std::string(type.name()));
  internal::Outgoing outgoing;
  const Value fields = internal::write_struct(outgoing, message);
  return publisher.publish(fields, outgoing.tensors);
}

// Reads a struct. Throws Error(kTypeMismatch) if a field is missing or has another type; the text
// names the field.
template <IsMessageStruct Struct>
Struct read_message(const Sample& sample) {
  return internal::read_message<Struct>(sample.tensors(), sample.fields());
}

}  // namespace tensorbus::inline v0
