#include "tensorbus/recording/record/recorded_sample.hpp"

#include <span>

#include "tensorbus/bus/domain/topic_name.hpp"
#include "tensorbus/bus/subscribe/tensor_runs.hpp"

namespace tensorbus::recording {

namespace {

tensor::mcap::TextMap metadata_of(const PublisherInfo& info) {
  tensor::mcap::TextMap map{{"publisher", bus::to_string({info.participant, info.number})},
                            {"pid", std::to_string(info.pid)},
                            {"depth", std::to_string(info.depth)},
                            {"history", std::to_string(info.history)},
                            {"reliable", info.reliable ? "true" : "false"},
                            {"fingerprint", std::to_string(info.type.fingerprint())}};
  if (!info.node.empty()) map["node"] = info.node;
  if (!info.machine.empty()) map["machine"] = info.machine;
  if (!info.origin.empty()) map["origin"] = info.origin;
  return map;
}

}  // namespace

std::shared_ptr<RecordedPublisher> recorded_publisher(const PublisherInfo& info) {
  return std::make_shared<RecordedPublisher>(
      RecordedPublisher{info.topic, info.type.definition(), metadata_of(info)});
}

std::uint64_t bytes_of(const bus::Sample& sample) {
  std::uint64_t bytes = sample.field_bytes().size();
  for (const bus::Tensor& tensor : sample.tensors()) bytes += span_of(tensor.layout()).bytes();
  return bytes;
}

tensor::mcap::OutgoingMessage outgoing(const RecordedSample& recorded) {
  const bus::Sample& sample = recorded.sample;
  const auto tensors = sample.tensors();
  tensor::mcap::OutgoingMessage message{.channel = recorded.publisher->channel,
                                        .log_time = recorded.log_time,
                                        .publish_time = sample.header().timestamp_ns,
                                        .head = {.fingerprint = sample.header().fingerprint,
                                                 .sequence = sample.header().sequence,
                                                 .fields = sample.field_bytes()}};
  for (const bus::Tensor& tensor : tensors)
    message.head.tensors.push_back({tensor.layout(), 0, tensor.published_on()});
  message.run_of.assign(tensors.size(), tensors.size());  // no run: for tensors without bytes
  const auto placed = bus::placed_tensors(tensors, [](const bus::Tensor&) { return true; });
  bus::for_each_run(std::span(placed), [&](const std::byte* begin, const std::byte* end,
                                           std::span<const bus::PlacedBytes> members) {
    for (const bus::PlacedBytes& one : members) {
      message.run_of[one.tensor] = message.runs.size();
      message.head.tensors[one.tensor].offset =
          static_cast<std::uint64_t>(tensors[one.tensor].data() - begin);
    }
    message.runs.emplace_back(begin, end);
  });
  return message;
}

}  // namespace tensorbus::recording
