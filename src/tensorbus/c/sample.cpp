#include "tensorbus/bus/subscribe/sample.hpp"

#include <algorithm>

#include "tensorbus/bus/domain/topic_name.hpp"
#include "tensorbus/c/guard.hpp"
#include "tensorbus/c/objects.hpp"
#include "tensorbus/c/structs.hpp"
#include "tensorbus/link/lease/mirror_origin.hpp"

using namespace tensorbus;
using namespace tensorbus::c;

tb_sample* tensorbus::c::sample_of(bus::Sample sample) { return new tb_sample(std::move(sample)); }

namespace {

const bus::Tensor& tensor_of(const tb_sample* sample, std::uint32_t index) {
  const std::span<const bus::Tensor> tensors = required(sample, "sample").sample.tensors();
  if (index >= tensors.size())
    throw Error(Code::kInvalidArgument, "tensor " + std::to_string(index) +
                                            ": the sample has only " +
                                            std::to_string(tensors.size()));
  return tensors[index];
}

// The id of a machine is computed from its name.
Origin origin_of(const link::MirrorOrigin& mirrored, std::uint64_t sequence) {
  Origin origin;
  origin.host = *Id::parse(bus::hash_hex(mirrored.machine));
  origin.sequence = sequence;
  if (const auto publisher = bus::parse_publisher_name(mirrored.publisher))
    origin.writer = publisher->first;
  return origin;
}

void describe(const bus::Tensor& tensor, tb_tensor* target) {
  tb_tensor found = TB_TENSOR_INIT;
  found.device = number_of(tensor.device());
  found.layout = described(tensor.layout());
  found.data = const_cast<std::byte*>(tensor.data());
  found.published_on = number_of(tensor.published_on());
  found.writable = tensor.writable() ? 1 : 0;
  give(&required(target, "tensor"), found);
}

}  // namespace

// Relaxed: a new reference is made from an existing one. The release in tb_sample_release() pairs
// with the acquire of the thread that releases the last reference.
void tb_sample_retain(tb_sample* sample) {
  if (sample != nullptr) sample->references.fetch_add(1, std::memory_order_relaxed);
}

void tb_sample_release(tb_sample* sample) {
  if (sample != nullptr && sample->references.fetch_sub(1, std::memory_order_acq_rel) == 1)
    delete sample;
}

void tb_sample_get_header(const tb_sample* sample, tb_sample_header* header) {
  (void)done([&] {
    const SampleHeader& found = required(sample, "sample").sample.header();
    tb_sample_header made = TB_SAMPLE_HEADER_INIT;
    made.publisher_number = found.publisher_number;
    made.sequence = found.sequence;
    made.timestamp_ns = found.timestamp_ns;
    made.fingerprint = found.fingerprint;
    std::ranges::copy(found.publisher.bytes, made.publisher);
    made.topic = found.topic.empty() ? "" : found.topic.data();
    if (const link::MirrorOrigin* const mirrored = sample->sample.mirrored()) {
      made.has_origin = 1;
      made.origin = described(origin_of(*mirrored, found.sequence));
    } else if (found.origin) {
      made.has_origin = 1;
      made.origin = described(*found.origin);
    }
    give(header, made);
  });
}

uint32_t tb_sample_tensor_count(const tb_sample* sample) {
  return sample == nullptr ? 0 : static_cast<std::uint32_t>(sample->sample.tensors().size());
}

tb_status tb_sample_tensor(const tb_sample* sample, uint32_t index, tb_tensor* tensor) {
  return done([&] { describe(tensor_of(sample, index), tensor); });
}

tb_status tb_sample_tensor_at(const tb_sample* sample, const char* key, tb_tensor* tensor) {
  return done([&] {
    describe(required(sample, "sample").sample.tensor(std::string_view(text_of(key, "key"))),
             tensor);
  });
}

const void* tb_sample_fields(const tb_sample* sample, size_t* bytes) {
  const std::span<const std::byte> fields =
      sample == nullptr ? std::span<const std::byte>() : sample->sample.field_bytes();
  if (bytes != nullptr) *bytes = fields.size();
  return fields.data();
}

tb_status tb_sample_use_on(const tb_sample* sample, uint32_t index, void* stream, int32_t device) {
  return done([&] { tensor_of(sample, index).use_on(stream, device_of(device)); });
}

int32_t tb_sample_intact(const tb_sample* sample) {
  if (sample == nullptr) return 0;
  return std::ranges::all_of(sample->sample.tensors(),
                             [](const bus::Tensor& tensor) { return tensor.intact(); })
             ? 1
             : 0;
}

tb_status tb_sample_copy(const tb_sample* sample, tb_sample** copy) {
  return done([&] {
    hand_out(copy, "copy", [&] { return sample_of(required(sample, "sample").sample.copy()); });
  });
}
