#include "tensorbus/recording/replayed_channel.hpp"

#include <algorithm>
#include <charconv>

#include "tensorbus/bus/domain/topic_name.hpp"
#include "tensorbus/bus/publish/outgoing_sample.hpp"
#include "tensorbus/link/lease/mirror_origin.hpp"
#include "tensorbus/link/ring/link_segment.hpp"

namespace tensorbus::recording {
namespace {

using tensor::mcap::TextMap;

constexpr std::size_t kMaxName = 255;  // bytes of a machine's name

std::string text_in(const TextMap& map, const char* key) {
  const auto found = map.find(key);
  return found == map.end() ? std::string() : found->second;
}

// Returns a number of the file, which is untrusted: limits it to this range. Returns `otherwise` if
// the text is not a number.
std::uint32_t number_in(const TextMap& map, const char* key, std::uint32_t least,
                        std::uint32_t most, std::uint32_t otherwise) {
  const std::string text = text_in(map, key);
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return otherwise;
  return std::clamp(value, least, most);
}

PublisherOptions options_of(const tensor::mcap::Channel& channel, const std::string& definition) {
  const PublisherOptions usual;
  PublisherOptions options;
  options.depth = number_in(channel.metadata, "depth", 1, link::kMaxDepth, usual.depth);
  options.history = number_in(channel.metadata, "history", 0, options.depth, 0);
  options.reliable = text_in(channel.metadata, "reliable") == "true";
  options.node = text_in(channel.metadata, "node");
  if (!definition.empty()) options.type = MessageType(definition);
  return options;
}

// Uses only the file name of the path.
std::string machine_name(const std::string& file) {
  const std::string name = file.substr(file.rfind('/') + 1);
  return (kReplay + name).substr(0, kMaxName);
}

link::MirrorOrigin origin_of(const tensor::mcap::Channel& channel, const std::string& file) {
  std::string publisher = text_in(channel.metadata, "publisher");
  if (!bus::parse_publisher_name(publisher)) publisher = bus::to_string(bus::PublisherName{});
  return {machine_name(file), std::move(publisher)};
}

}  // namespace

ReplayedChannel::ReplayedChannel(const tensor::mcap::Channel& channel,
                                 const std::string& definition, const std::string& topic,
                                 const std::string& file, std::uint64_t first,
                                 const bus::ParticipantRef& participant)
    : publisher_(topic, options_of(channel, definition), participant, origin_of(channel, file),
                 first),  // otherwise the first subscriber would count earlier numbers as missed
      next_(first) {}

Published ReplayedChannel::publish(const bus::Sample& sample, const platform::StopCondition& stop) {
  const SampleHeader& header = sample.header();
  if (header.sequence + raised_by_ < next_) raised_by_ = next_ - header.sequence;
  Message message{.fields = sample.field_bytes(), .fingerprint = header.fingerprint};
  for (const bus::Tensor& tensor : sample.tensors()) {
    tensor.use_on(nullptr);  // orders the default stream after a copy to a GPU
    message.tensors.push_back(
        {.data = tensor.data(), .layout = tensor.layout(), .device = tensor.device()});
  }
  const bus::Stamp stamp{header.sequence + raised_by_, header.timestamp_ns};
  const Published result = publisher_.publish_as(message, stamp, stop);
  if (result.outcome == Outcome::kDone) next_ = stamp.sequence + 1;
  return result;
}

}  // namespace tensorbus::recording
