#pragma once

#include "tensorbus/python/bindings.hpp"

namespace tensorbus::python {

// The functions of Python (tensorbus/_codec/fields.py) to which the codec leaves what is rare.
struct Hooks {
  // lower(outgoing, value) takes a value apart: the index of the tensor that it is among those of
  // `outgoing`, or a record: a tuple of its name and parts, which are packed in turn.
  nb::object lower;
  // cannot_travel(value, why) returns the error of a value that has no words.
  nb::object cannot_travel;
  // blamed(error, value): a part of the record of this value was refused. Raises the error that
  // names the value, where the part says nothing to a user.
  nb::object blamed;
  // refused(error, message): a message was refused. Raises the error that says where.
  nb::object refused;
  // restorer(sample, library, plan) makes what restore() needs.
  nb::object restorer;
  // restore(restorer, record) makes a value of a record's name and parts.
  nb::object restore;
  // extension(bytes) makes a value of an extension that is not ours.
  nb::object extension;
  // tensor_from(memory, library) makes a tensor about which something is unusual.
  nb::object tensor_from;
  // shared_tensors(sample, library) returns the tensors that share memory, by index.
  nb::object shared_tensors;
};

// Throws Error(kInvalidArgument) before Python has set them.
const Hooks& hooks();

}  // namespace tensorbus::python
