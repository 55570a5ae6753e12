#pragma once

#include <tensorbus/c/sample.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tensorbus/internal/call.hpp>
#include <tensorbus/internal/one_or_many.hpp>
#include <tensorbus/internal/tensors.hpp>
#include <tensorbus/tensor.hpp>
#include <tensorbus/values/id.hpp>
#include <tensorbus/values/origin.hpp>
#include <tensorbus/values/sample_header.hpp>
#include <tensorbus/values/value.hpp>
#include <utility>
#include <vector>

namespace tensorbus::inline v0 {

class Sample;
namespace internal {
template <typename Call>
Outcome receive_into(Sample& sample, Call call);
}

// One received message. Movable, not copyable; its tensors may outlive it. An empty or moved-from
// sample has no tensors and an empty header; its other functions throw Error(kClosed).
//
//   for (const tensorbus::Tensor& tensor : sample.tensors()) use(tensor.as<float>());
//   std::int64_t id = sample.fields().at("id").as<std::int64_t>();
class Sample {
 public:
  Sample() = default;
  Sample(Sample&& other) noexcept
      : sample_(std::move(other.sample_)), tensors_(std::exchange(other.tensors_, {})) {}
  Sample& operator=(Sample&& other) noexcept {
    sample_ = std::move(other.sample_);
    tensors_ = std::exchange(other.tensors_, {});
    return *this;
  }
  ~Sample() = default;

  SampleHeader header() const noexcept;
  std::span<const Tensor> tensors() const& noexcept { return tensors_.span(); }
  // Returns the only tensor. Throws Error(kInvalidArgument) unless there is exactly one.
  const Tensor& tensor() const&;
  // Returns the tensor at this key of the fields: sample.tensor("image"). Throws
  // Error(kInvalidArgument) if there is none.
  const Tensor& tensor(std::string_view key) const&;
  // A temporary, such as `recording[0]`, gives tensors of their own, which keep their memory. Keep
  // the vector, not a span of it. `subscriber.receive()->` is not a temporary sample: its spans and
  // references end with the statement.
  std::vector<Tensor> tensors() && { return {tensors_.span().begin(), tensors_.span().end()}; }
  Tensor tensor() && { return std::as_const(*this).tensor(); }
  Tensor tensor(std::string_view key) && { return std::as_const(*this).tensor(key); }
  // Return the small fields: as received (MessagePack), and decoded. Both are empty if the message
  // was a single tensor. fields() throws Error(kProtocol) if they are malformed.
  std::span<const std::byte> field_bytes() const noexcept;
  Value fields() const;

  // Returns a copy in writable memory that only this process has, without a lease. Tensors that
  // overlap also overlap in the copy. Throws Error(kOutOfMemory).
  Sample copy() const;

 private:
  template <typename Call>
  friend Outcome internal::receive_into(Sample& sample, Call call);
  friend class Parents;
  friend class Subscriber;
  // Takes over a sample from C, replacing the present one.
  void take(tb_sample* given) {
    own(given);
    describe_tensors();
  }
  void let_go() noexcept {
    if (!tensors_.empty()) tensors_.clear();
    sample_ = {};
  }
  void own(tb_sample* given) noexcept;
  void describe_tensors();
  tb_sample* alive() const {
    if (!sample_) throw Error(Code::kClosed, "this sample is empty, or was moved from");
    return sample_.get();
  }

  internal::SampleRef sample_;
  OneOrMany<Tensor> tensors_;  // destroyed before sample_
};

namespace internal {

// Makes a call that stores a sample in its argument when it succeeds.
template <typename Call>
Outcome receive_into(Sample& sample, Call call) {
  tb_sample* given = nullptr;
  const Outcome outcome = outcome_of(call(&given));
  if (given != nullptr) sample.take(given);
  return outcome;
}

}  // namespace internal

inline void Sample::own(tb_sample* given) noexcept {
  let_go();
  sample_ = internal::SampleRef::given(given);
}

inline void Sample::describe_tensors() {
  const std::uint32_t count = tb_sample_tensor_count(sample_.get());
  tensors_.resize(count);
  for (std::uint32_t i = 0; i < count; ++i) tensors_[i].describe(sample_.get(), i);
}

inline SampleHeader Sample::header() const noexcept {
  if (!sample_) return {};
  tb_sample_header given = TB_SAMPLE_HEADER_INIT;
  tb_sample_get_header(sample_.get(), &given);
  SampleHeader header{.sequence = given.sequence,
                      .timestamp_ns = given.timestamp_ns,
                      .fingerprint = given.fingerprint,
                      .publisher = internal::id_of(given.publisher),
                      .publisher_number = given.publisher_number,
                      .topic = given.topic,
                      .origin = std::nullopt};
  if (given.has_origin != 0)
    header.origin = Origin{internal::id_of(given.origin.host), internal::id_of(given.origin.writer),
                           given.origin.sequence};
  return header;
}

inline const Tensor& Sample::tensor() const& {
  alive();
  if (tensors_.size() != 1)
    throw Error(Code::kInvalidArgument,
                "this sample has " + std::to_string(tensors_.size()) + " tensors: use tensors()");
  return tensors_.front();
}

inline const Tensor& Sample::tensor(std::string_view key) const& {
  const std::uint32_t index = fields().at(key).as<TensorIndex>().index;
  if (index >= tensors_.size())
    throw Error(Code::kProtocol, "sample.fields: there is no tensor " + std::to_string(index));
  return tensors_[index];
}

inline std::span<const std::byte> Sample::field_bytes() const noexcept {
  std::size_t bytes = 0;
  const void* const first = tb_sample_fields(sample_.get(), &bytes);
  return {static_cast<const std::byte*>(first), bytes};
}

inline Value Sample::fields() const {
  alive();
  const auto bytes = field_bytes();
  return bytes.empty() ? Value() : Value::decode(bytes);
}

inline Sample Sample::copy() const {
  Sample copy;
  (void)internal::receive_into(copy,
                               [&](tb_sample** given) { return tb_sample_copy(alive(), given); });
  return copy;
}

}  // namespace tensorbus::inline v0
