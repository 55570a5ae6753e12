#include "tensorbus/python/codec/sample_source.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>

#include <string>
#include <utility>

#include "tensorbus/python/codec/hooks.hpp"
#include "tensorbus/python/numpy/arrays.hpp"
#include "tensorbus/python/sample_memory.hpp"

namespace tensorbus::python {

SampleSource::SampleSource(nb::handle sample, const ReceivedSample& received,
                           std::optional<std::string_view> library, const MessagePlan* plan)
    : sample_(sample),
      received_(received),
      library_(library),
      plan_(plan),
      made_(received.tensors().size()) {
  if (has_shared_storages(received_, library_)) share_storages();
}

// Makes the torch tensors that overlap in memory: they share a storage, like views do.
void SampleSource::share_storages() {
  const nb::dict shared = nb::cast<nb::dict>(hooks().shared_tensors(sample_, library_));
  for (const auto& [index, tensor] : shared)
    made_.at(nb::cast<std::size_t>(index)) = nb::borrow(tensor);
}

nb::object SampleSource::tensor(std::uint64_t index) {
  if (index >= made_.size())
    throw Error(Code::kProtocol, "sample.fields: there is no tensor " + std::to_string(index));
  nb::object& made = made_[index];
  if (!made) made = make(index);
  return made;
}

nb::object SampleSource::make(std::size_t index) const {
  Memory found = memory(received_, index);
  if (is_for_torch(found.layout, library_)) {
    if (can_be_plain_torch(found)) return make_plain_torch(std::move(found));
  } else if ((!library_ || *library_ == "numpy") && can_be_plain_array(found)) {
    return make_plain_array(std::move(found));
  }
  return hooks().tensor_from(std::move(found), library_);
}

nb::handle SampleSource::restorer() {
  if (!restorer_)
    restorer_ = hooks().restorer(sample_, library_, plan_ != nullptr ? plan_->plan : nb::none());
  return restorer_;
}

nb::object SampleSource::library() const { return nb::cast(library_); }

nb::object read_sample(nb::handle sample, std::optional<std::string_view> library,
                       const MessagePlan* plan) {
  const auto& received = nb::cast<const ReceivedSample&>(sample);
  note_use(received);
  SampleSource source(sample, received, library, plan);
  const std::span<const std::byte> fields = received.field_bytes();
  if (!fields.empty()) {
    FieldsReader reader(fields, source);
    return plan != nullptr ? reader.read_typed(*plan, source.library()) : reader.read_whole();
  }
  nb::object tensors;
  if (source.size() == 1) {
    tensors = source.tensor(0);
  } else {
    nb::list all;
    for (std::size_t i = 0; i < source.size(); ++i) all.append(source.tensor(i));
    tensors = all;
  }
  return plan != nullptr ? plan->plan.attr("received")(tensors, source.library()) : tensors;
}

}  // namespace tensorbus::python
