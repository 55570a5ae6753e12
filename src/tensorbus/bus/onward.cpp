#include "tensorbus/bus/onward.hpp"

namespace tensorbus::bus {

PreparedSample onward(Surroundings& surroundings, const Sample& sample, memory::Grant grant) {
  Message message;
  message.fields = sample.field_bytes();
  message.fingerprint = sample.header().fingerprint;
  for (const Tensor& tensor : sample.tensors())
    message.tensors.push_back({tensor.data(), tensor.layout(), tensor.device()});
  const auto none = std::make_shared<link::ByteCounter>(0);
  return {message.tensors,
          message,
          {*surroundings.arena, *surroundings.cuda,
           [&](std::size_t bytes) { return surroundings.arena->allocate(bytes, grant); },
           [&](const Device& device, std::size_t bytes) {
             return surroundings.cuda->allocate(platform::CudaDevice::at(device.ordinal), bytes,
                                                grant);
           },
           grant, none, surroundings.self, *surroundings.lent, true}};
}

}  // namespace tensorbus::bus
