#include "tensorbus/python/codec/hooks.hpp"

#include <atomic>
#include <utility>

namespace tensorbus::python {
namespace {

// Set once and never freed: the interpreter may end before this extension. Release when written
// pairs with acquire when read, so that a reader sees complete Hooks.
std::atomic<const Hooks*> known_hooks{nullptr};

void set_codec(nb::object lower, nb::object cannot_travel, nb::object blamed, nb::object refused,
               nb::object restorer, nb::object restore, nb::object extension,
               nb::object tensor_from, nb::object shared_tensors) {
  if (known_hooks.load(std::memory_order_relaxed) != nullptr) return;
  known_hooks.store(
      new Hooks{std::move(lower), std::move(cannot_travel), std::move(blamed), std::move(refused),
                std::move(restorer), std::move(restore), std::move(extension),
                std::move(tensor_from), std::move(shared_tensors)},
      std::memory_order_release);
}

}  // namespace

const Hooks& hooks() {
  const Hooks* const known = known_hooks.load(std::memory_order_acquire);
  if (known == nullptr)
    throw Error(Code::kInvalidArgument, "import tensorbus, not only tensorbus._core");
  return *known;
}

void bind_hooks(nb::module_& module) {
  module.def("set_codec", set_codec, nb::kw_only(), nb::arg("lower"), nb::arg("cannot_travel"),
             nb::arg("blamed"), nb::arg("refused"), nb::arg("restorer"), nb::arg("restore"),
             nb::arg("extension"), nb::arg("tensor_from"), nb::arg("shared_tensors"),
             nb::sig("def set_codec(*, lower: typing.Any, cannot_travel: typing.Any, "
                     "blamed: typing.Any, refused: typing.Any, restorer: typing.Any, "
                     "restore: typing.Any, extension: typing.Any, tensor_from: typing.Any, "
                     "shared_tensors: typing.Any) -> None"),
             "Sets the Python functions that handle rare values in messages.");
}

}  // namespace tensorbus::python
