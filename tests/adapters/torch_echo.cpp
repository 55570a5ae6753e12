// Publishes on "back" what it receives on "there", each tensor as PyTorch's in between: the fields
// {"tensors": [...], "by_reference": ..., "copied": bytes so far}, or {"refused": why}.
#include <chrono>
#include <cstdint>
#include <tensorbus/tensorbus.hpp>
#include <tensorbus/torch.hpp>
#include <utility>
#include <vector>

namespace {

using tensorbus::Value;

void send_back(tensorbus::Publisher& back, tensorbus::Sample sample) {
  std::vector<at::Tensor> tensors;
  bool by_reference = true;
  for (const tensorbus::Tensor& tensor : sample.tensors()) {
    tensors.push_back(tensorbus::to_torch(tensor));
    by_reference &= tensors.back().unsafeGetTensorImpl()->data() == tensor.data();
  }
  sample = {};  // the leases are PyTorch's now
  std::vector<tensorbus::TensorView> views;
  Value::List list;
  for (const at::Tensor& tensor : tensors) {
    list.push_back(tensorbus::TensorIndex{static_cast<std::uint32_t>(views.size())});
    views.push_back(tensorbus::view_of(tensor));
  }
  back.publish(Value::Map{{"tensors", std::move(list)},
                          {"by_reference", by_reference},
                          {"copied", back.stats().bytes_copied}},
               views);
}

}  // namespace

int main() {
  tensorbus::Publisher back("back", {.reliable = true});
  tensorbus::Subscriber there("there");
  while (auto sample = there.receive(std::chrono::minutes(1))) {
    try {
      send_back(back, std::move(*sample));
    } catch (const tensorbus::Error& error) {
      back.publish(Value::Map{{"refused", error.what()}}, {});
    }
  }
}
