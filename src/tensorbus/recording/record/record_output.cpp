#include "tensorbus/recording/record/record_output.hpp"

#include <dirent.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "tensorbus/memory/file/mapped_file.hpp"

namespace tensorbus::recording {
namespace {

using tensor::mcap::Compression;

constexpr std::size_t kDigits = 4;
// Sizes of messages. A message of at least kLarge bytes is compressed only if its topic is named; a
// message of at least kMaxPacked bytes is never compressed.
constexpr std::uint64_t kLarge = std::uint64_t{1} << 20;
constexpr std::uint64_t kMaxPacked = tensor::mcap::kMaxChunkBytes / 2;

Compression compression_option(const std::string& name) {
  try {
    return tensor::mcap::compression_named(name);
  } catch (const Error& error) {
    throw Error(Code::kInvalidArgument, std::string("compress: ") + error.what());
  }
}

}  // namespace

RecordCompression record_compression(const std::string& all,
                                     const std::map<std::string, std::string>& topics) {
  RecordCompression compression;
  compression.all = compression_option(all);
  for (const auto& [topic, name] : topics) compression.topics[topic] = compression_option(name);
  return compression;
}

bool RecordCompression::any() const noexcept {
  const auto is_one = [](const auto& of) { return of.second != Compression::kNone; };
  return all != Compression::kNone || std::ranges::any_of(topics, is_one);
}

Compression RecordCompression::of(const std::string& topic, std::uint64_t bytes) const {
  const auto found = topics.find(topic);
  if (found == topics.end()) return bytes < kLarge ? all : Compression::kNone;
  return found->second;
}

void RecordCompression::require_libraries() const {
  tensor::mcap::require_library(all);
  for (const auto& [topic, how] : topics) tensor::mcap::require_library(how);
}

RecordOutput::RecordOutput(RecordOutputOptions options) : options_(std::move(options)) {
  options_.compression.require_libraries();
  for (const auto& [topic, how] : options_.compression.topics) unmet_.insert(topic);
}

// Returns the position in the path at which the number is inserted.
std::size_t RecordOutput::number_at() const noexcept {
  const std::size_t name = options_.path.rfind('/') + 1;  // 0 without a '/'
  const std::size_t dot = options_.path.rfind('.');
  const bool has_suffix = dot != std::string::npos && dot > name;
  return has_suffix ? dot : options_.path.size();
}

std::string RecordOutput::path_of(std::uint32_t number) const {
  if (!options_.numbered) return options_.path;
  std::string digits = std::to_string(number);
  digits.insert(0, kDigits - std::min(kDigits, digits.size()), '0');
  const std::size_t at = number_at();
  return options_.path.substr(0, at) + "-" + digits + options_.path.substr(at);
}

void RecordOutput::require_no_files() const {
  if (!options_.numbered || options_.overwrite) return;
  const std::string before = options_.path.substr(0, number_at()) + "-";
  const std::string behind = options_.path.substr(number_at());
  const std::string folder = options_.path.substr(0, options_.path.rfind('/') + 1);
  const std::unique_ptr<DIR, int (*)(DIR*)> listed(::opendir(folder.empty() ? "." : folder.c_str()),
                                                   ::closedir);
  if (listed == nullptr) return;  // begin() fails
  while (const dirent* entry = ::readdir(listed.get())) {
    const std::string path = folder + entry->d_name;
    if (path.size() < before.size() + kDigits + behind.size() || !path.starts_with(before) ||
        !path.ends_with(behind))
      continue;
    if (path.find_first_not_of("0123456789", before.size()) >= path.size() - behind.size())
      throw Error(Code::kInvalidArgument,
                  memory::about_file(path) + "it exists: choose another name, or overwrite it");
  }
}

void RecordOutput::begin() {
  if (writer_) {
    earlier_messages_ += writer_->messages();
    earlier_bytes_ += writer_->bytes();
    writer_.reset();
  }
  first_time_ = 0;
  writer_.emplace(path_of(files_ + 1), options_.overwrite, options_.about,
                  options_.chunks || options_.compression.any());
  ++files_;
}

bool RecordOutput::is_full(const RecordedSample& next) const noexcept {
  if (first_time_ == 0) return false;  // a file has at least one message
  if (options_.split_ns != 0 && next.log_time - first_time_ >= options_.split_ns) return true;
  return options_.split_bytes != 0 &&
         writer_->bytes() + writer_->staged_bytes() + next.bytes > options_.split_bytes;
}

void RecordOutput::stage(const RecordedSample& sample) {
  if (is_full(sample)) {
    finish();
    begin();
  }
  RecordedPublisher& publisher = *sample.publisher;
  if (publisher.file != files_) {
    publisher.channel =
        writer_->add_channel(publisher.topic, publisher.definition, publisher.metadata);
    publisher.file = files_;
    unmet_.erase(publisher.topic);
  }
  if (sample.lost != 0)
    writer_->add_lost(
        {publisher.channel, sample.first_lost, sample.lost, sample.log_time, sample.why_lost});
  if (!sample.has_sample) return;
  auto message = outgoing(sample);
  message.compression = compression_of(sample);
  if (message.compression == Compression::kNone && !sample.compression &&
      options_.compression.of(publisher.topic, 0) != Compression::kNone)
    ++large_[publisher.topic];
  writer_->add_message(message);
  if (first_time_ == 0) first_time_ = std::max<std::uint64_t>(sample.log_time, 1);
}

// Messages compressed by another program may be too large for our chunks.
Compression RecordOutput::compression_of(const RecordedSample& sample) const {
  if (sample.bytes >= kMaxPacked) return Compression::kNone;
  return sample.compression ? *sample.compression
                            : options_.compression.of(sample.publisher->topic, sample.bytes);
}

std::vector<std::string> RecordOutput::uncompressed() const {
  std::vector<std::string> found;
  for (const std::string& topic : unmet_)
    found.push_back("compress: nothing was recorded on topic '" + topic + "'");
  const std::string all(tensor::mcap::name_of(options_.compression.all));
  for (const auto& [topic, count] : large_) {
    std::string text = "compress: topic '" + topic + "': ";
    text.append(std::to_string(count)).append(" messages of ");
    if (options_.compression.topics.contains(topic))
      text += "512 MiB or more were not compressed: they are too large";
    else
      text.append("1 MiB or more were not compressed: name the topic to compress them (")
          .append(topic)
          .append("=")
          .append(all)
          .append(")");
    found.push_back(std::move(text));
  }
  return found;
}

void RecordOutput::commit() { writer_->commit(); }

void RecordOutput::drop_staged() noexcept {
  if (writer_) writer_->drop_staged();
}

std::optional<std::chrono::steady_clock::time_point> RecordOutput::due() const {
  return writer_ ? writer_->due() : std::nullopt;
}

void RecordOutput::finish() {
  if (writer_) writer_->finish();
}

std::uint64_t RecordOutput::messages() const noexcept {
  return earlier_messages_ + (writer_ ? writer_->messages() : 0);
}

std::uint64_t RecordOutput::bytes() const noexcept {
  return earlier_bytes_ + (writer_ ? writer_->bytes() : 0);
}

}  // namespace tensorbus::recording
