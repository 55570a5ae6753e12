#pragma once

#include "tensorbus/python/bindings.hpp"

namespace tensorbus::python {

// The Python functions (tensorbus/_codec/fields.py) that handle rare values for the codec.
struct Hooks {
  // lower(outgoing, value) converts a value. It adds the value to `outgoing` as a tensor and
  // returns the index, or returns a record: a tuple of a name and parts, which are then packed.
  nb::object lower;
  // cannot_travel(value, why) returns the error for a value that cannot be packed.
  nb::object cannot_travel;
  // blamed(error, value) is called if a part of the record of this value was refused. Raises an
  // error that names the value if the part means nothing to a user.
  nb::object blamed;
  // refused(error, message) is called if a message was refused. Raises an error that names the
  // place in the message.
  nb::object refused;
  // restorer(sample, library, plan) returns the restorer for restore().
  nb::object restorer;
  // restore(restorer, record) returns the value of a record, given by its name and parts.
  nb::object restore;
  // extension(bytes) returns the value of an unknown MessagePack extension.
  nb::object extension;
  // tensor_from(memory, library) returns a tensor that the codec cannot make itself.
  nb::object tensor_from;
  // shared_tensors(sample, library) returns the tensors that share memory, by index.
  nb::object shared_tensors;
};

// Throws Error(kInvalidArgument) before set_codec().
const Hooks& hooks();

}  // namespace tensorbus::python
