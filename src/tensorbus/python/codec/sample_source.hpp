#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "tensorbus/python/codec/fields_reader.hpp"

namespace tensorbus::python {

// The tensors of a received sample, each made on first use.
class SampleSource final : public TensorSource {
 public:
  // `sample` is the Python object of `received`. `library`: the library of the tensors to make.
  SampleSource(nb::handle sample, const ReceivedSample& received,
               std::optional<std::string_view> library, const MessagePlan* plan);

  nb::object tensor(std::uint64_t index) override;
  nb::handle restorer() override;
  nb::object library() const;
  std::size_t size() const noexcept { return made_.size(); }

 private:
  void share_storages();
  nb::object make(std::size_t index) const;

  const nb::handle sample_;
  const ReceivedSample& received_;
  const std::optional<std::string_view> library_;
  const MessagePlan* const plan_;
  std::vector<nb::object> made_;
  nb::object restorer_;  // made for the first rare value
};

// Returns the message of a sample, with its tensors.
nb::object read_sample(nb::handle sample, std::optional<std::string_view> library,
                       const MessagePlan* plan);

}  // namespace tensorbus::python
