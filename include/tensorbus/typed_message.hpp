#pragma once

#include <chrono>
#include <string>
#include <tensorbus/internal/message_field.hpp>
#include <tensorbus/internal/received.hpp>
#include <tensorbus/message_fields.hpp>
#include <tensorbus/publisher.hpp>
#include <tensorbus/sample.hpp>
#include <tensorbus/subscriber.hpp>
#include <tensorbus/values/message_struct.hpp>
#include <tensorbus/values/outcome.hpp>
#include <utility>

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
//   for (const Pose& pose : tensorbus::messages<Pose>(subscriber))
//     use(pose.position.tensor().as<float>());
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

// The next samples of a subscriber as structs: see Subscriber::samples(), which this range throws
// and ends like. The subscriber must outlive it. Throws as read_message() does; the text also names
// the topic. A new range goes on after that.
template <IsMessageStruct Struct>
internal::Received<Struct> messages(Subscriber& subscriber,
                                    std::chrono::nanoseconds timeout = Subscriber::kForever,
                                    GiveUp give_up = {}) {
  return internal::Received<Struct>(
      [topic = subscriber.topic(),
       samples = subscriber.samples(timeout, std::move(give_up))](Struct& message) {
        Sample sample;
        const Outcome outcome = samples.receive(sample);
        if (outcome == Outcome::kDone) try {
            message = read_message<Struct>(sample);
          } catch (const Error& error) {
            throw Error(error.code(), "topic \"" + topic + "\": " + error.what());
          }
        return outcome;
      });
}

}  // namespace tensorbus::inline v0
