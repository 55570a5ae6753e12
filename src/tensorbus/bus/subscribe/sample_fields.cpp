// Samples of queues that lie completely in their descriptor.
#include <utility>

#include "tensorbus/bus/subscribe/sample_data.hpp"

namespace tensorbus::bus {

void SampleData::read_fields(Sample& sample, const LentSample& held) {
  auto parts = std::make_unique_for_overwrite<SampleData>();
  const std::span<const std::byte> bytes = parts->copy(held.bytes, held.entry);
  const std::span<const std::byte> fields = held.descriptor.fields;
  const auto before =
      fields.empty() ? 0 : static_cast<std::size_t>(fields.data() - held.bytes.data());
  parts->describe(held.entry, *held.lender, bytes.subspan(before, fields.size()),
                  held.descriptor.origin);
  parts->source = held.lender->source();
  sample.parts_ = std::move(parts);
}

}  // namespace tensorbus::bus
