// Puts tensors of a sample into this participant's blocks on devices: restores or copies them
// there.
#include <algorithm>
#include <map>

#include "tensorbus/bus/subscribe/sample_data.hpp"

namespace tensorbus::bus {
namespace {

// The copies on one device.
struct OnDevice {
  DevicePlan plan;
  std::vector<device::DeviceKeeper*> from{};
  memory::BlockRef block{};

  void add(device::DeviceKeeper* keeper) {
    if (std::find(from.begin(), from.end(), keeper) == from.end()) from.push_back(keeper);
  }
  device::DeviceKeeper::Intact intact_later() const {
    std::vector<device::DeviceKeeper::Intact> all;
    for (const auto* keeper : from)
      if (auto intact = keeper->intact_later()) all.push_back(std::move(intact));
    return [all = std::move(all)] {
      return std::all_of(all.begin(), all.end(), [](const auto& intact) { return intact(); });
    };
  }
};

}  // namespace

// Makes the tensor refer to its copy in `block`; `original` is its first element before the copy.
void SampleData::place_in(Tensor& tensor, const std::byte* original, const DevicePlan& plan,
                          const std::shared_ptr<device::OwnBlock>& block, const Device& device) {
  const ByteSpan span = span_of(tensor.layout_);
  tensor.data_ = block->data() + plan.place_of(original + span.begin) - span.begin;
  tensor.device_ = device;
  tensor.keeper_ = block;
  tensor.on_device_ = block.get();
}

Sample SampleData::of_memory(std::shared_ptr<device::DeviceKeeper> keeper, const Device& device,
                             const Layout& layout, const std::byte* first) {
  auto parts = std::make_unique<SampleData>();
  parts->tensors.resize(1);
  Tensor& tensor = parts->tensors[0];
  tensor.layout_ = layout;
  tensor.data_ = first;
  tensor.device_ = tensor.published_on_ = device;
  tensor.writable_ = true;
  tensor.on_device_ = keeper.get();
  tensor.keeper_ = std::move(keeper);
  Sample sample;
  sample.parts_ = std::move(parts);
  return sample;
}

void SampleData::restore(const ReceiveOptions& how, const AcquiredLeases& acquired) {
  const auto read = std::make_shared<std::vector<std::shared_ptr<const void>>>();
  std::vector<Tensor*> moving;
  for (const HostCopiedTensor& copy : acquired.staged) {
    Tensor& tensor = tensors[copy.tensor];
    if (tensor.data_ == nullptr) continue;  // the sender has changed the descriptor since
    read->push_back(copy.lease);
    read->push_back(acquired.lenders[copy.lender]->find_segment(copy.segment));
    moving.push_back(&tensor);
  }
  move_to(how.copier, *how.device, moving, read);
}

void SampleData::put_on_device(Sample& sample, const std::shared_ptr<DeviceCopier>& copier,
                               const Device& device) {
  const auto read = std::make_shared<std::vector<std::shared_ptr<const void>>>();
  std::vector<Tensor*> moving;
  for (Tensor& tensor : sample.parts_->tensors) {
    if (tensor.data_ == nullptr || !tensor.device_.is_host() || tensor.published_on_.is_host())
      continue;
    read->push_back(tensor.keeper_);
    moving.push_back(&tensor);
  }
  sample.parts_->move_to(copier, device, moving, read);
}

// `read` keeps the bytes of the tensors, which all lie in host memory.
void SampleData::move_to(const std::shared_ptr<DeviceCopier>& by, const Device& device,
                         std::span<Tensor* const> moving, std::shared_ptr<const void> read) {
  if (moving.empty()) return;
  DevicePlan plan;
  for (const Tensor* const tensor : moving) {
    const ByteSpan span = span_of(tensor->layout_);
    plan.add(tensor->data_ + span.begin, span.bytes(), tensor->layout_.packed_bytes());
  }
  memory::BlockRef block = by->allocate(device, plan.lay_out());
  by->fill(block, plan, [](const DeviceCopier::Stream&) {});
  by->keep_until_filled(*block, std::move(read));
  const auto own = by->own(std::move(block), {});
  for (Tensor* const tensor : moving) place_in(*tensor, tensor->data_, plan, own, device);
  copier = by;
}

// Allocates memory for all copies before it enqueues any.
void SampleData::copy_on_devices(DeviceCopier& by, std::span<const Tensor> originals) {
  std::map<Device, OnDevice> devices;
  for (const Tensor& original : originals) {
    if (original.device_.is_host()) continue;
    const ByteSpan span = span_of(original.layout_);
    OnDevice& there = devices[original.device_];
    there.plan.add(original.data_ + span.begin, span.bytes(), original.layout_.packed_bytes());
    there.add(original.on_device_);
  }
  for (auto& [device, there] : devices) there.block = by.allocate(device, there.plan.lay_out());
  for (auto& [device, there] : devices) {
    by.fill(there.block, there.plan, [&there = there](const DeviceCopier::Stream& stream) {
      for (device::DeviceKeeper* const keeper : there.from) keeper->use_on(stream);
    });
    const auto own = by.own(std::move(there.block), there.intact_later());
    for (std::size_t i = 0; i < originals.size(); ++i)
      if (originals[i].device_ == device)
        place_in(tensors[i], originals[i].data_, there.plan, own, device);
  }
}

}  // namespace tensorbus::bus
