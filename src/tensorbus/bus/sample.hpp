#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/export.hpp"
#include "tensorbus/platform/id.hpp"
#include "tensorbus/tensor/layout.hpp"
#include "tensorbus/tensor/origin.hpp"
#include "tensorbus/tensor/value.hpp"

namespace tensorbus {

namespace bus {
class Lease;
struct SampleParts;
}  // namespace bus

// A received tensor: read-only memory of its owner, leased for as long as this object or a copy of
// it lives, whatever happens to the publisher.
class TENSORBUS_API Tensor {
 public:
  const Layout& layout() const noexcept { return layout_; }
  DType dtype() const noexcept { return layout_.dtype; }
  const Dims& shape() const noexcept { return layout_.shape; }
  const Dims& strides() const noexcept { return layout_.strides; }  // in elements
  const std::byte* data() const noexcept { return data_; }          // the first element

  // The elements of a contiguous tensor. Throws Error(kInvalidArgument) for another element type or
  // a tensor that is not contiguous.
  template <typename T>
  std::span<const T> as() const {
    if (layout_.dtype != dtype_of<T>())
      throw Error(Code::kInvalidArgument, "this tensor is " + std::string(name_of(layout_.dtype)) +
                                              ", not " + std::string(name_of(dtype_of<T>())));
    if (!layout_.is_contiguous())
      throw Error(Code::kInvalidArgument, "this tensor is not contiguous: use data(), strides()");
    return {reinterpret_cast<const T*>(data_), layout_.elements()};
  }

 private:
  friend struct bus::SampleParts;
  Layout layout_;
  const std::byte* data_ = nullptr;
  std::shared_ptr<const bus::Lease> lease_;
};

struct SampleHeader {
  std::uint64_t sequence = 0;      // counts from 0 for each publisher
  std::uint64_t timestamp_ns = 0;  // wall clock at publish
  std::uint64_t fingerprint = 0;   // of the message type; 0: untyped
  Id publisher;                    // the participant that published it
  std::uint32_t publisher_number = 0;
  std::string_view topic;        // valid while the sample lives
  std::optional<Origin> origin;  // set if a bridge brought it from elsewhere
};

// One received message. Moves, does not copy; its tensors may outlive it.
class TENSORBUS_API Sample {
 public:
  Sample();
  Sample(Sample&&) noexcept;
  Sample& operator=(Sample&&) noexcept;
  ~Sample();

  const SampleHeader& header() const noexcept;
  std::span<const Tensor> tensors() const noexcept;
  // The only tensor. Throws Error(kInvalidArgument) if there is not exactly one.
  const Tensor& tensor() const;
  // The tensor at this key of the fields: sample.tensor("image"). Throws Error(kInvalidArgument) if
  // there is none.
  const Tensor& tensor(std::string_view key) const;
  // The small fields as they came, MessagePack, and decoded (throws Error(kProtocol) if they are
  // malformed). Empty if the message was nothing but a tensor.
  std::span<const std::byte> field_bytes() const noexcept;
  Value fields() const;

 private:
  friend struct bus::SampleParts;
  std::unique_ptr<bus::SampleParts> parts_;
};

}  // namespace tensorbus
