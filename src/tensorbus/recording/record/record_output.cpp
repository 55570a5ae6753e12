#include "tensorbus/recording/record/record_output.hpp"

#include <algorithm>
#include <utility>

namespace tensorbus::bus {
namespace {

constexpr std::size_t kDigits = 4;

}  // namespace

std::string RecordOutput::path_of(std::uint32_t number) const {
  if (!options_.numbered) return options_.path;
  std::string digits = std::to_string(number);
  digits.insert(0, kDigits - std::min(kDigits, digits.size()), '0');
  const std::size_t name = options_.path.rfind('/') + 1;  // 0 without one
  const std::size_t dot = options_.path.rfind('.');
  const bool has_suffix = dot != std::string::npos && dot > name;
  const std::size_t at = has_suffix ? dot : options_.path.size();
  return options_.path.substr(0, at) + "-" + digits + options_.path.substr(at);
}

void RecordOutput::begin() {
  if (writer_) {
    earlier_messages_ += writer_->messages();
    earlier_bytes_ += writer_->bytes();
    writer_.reset();
  }
  first_time_ = 0;
  writer_.emplace(path_of(files_ + 1), options_.overwrite, options_.about);
  ++files_;
}

bool RecordOutput::is_full(const RecordedSample& next) const noexcept {
  if (first_time_ == 0) return false;  // it has at least one message
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
  }
  if (sample.lost != 0)
    writer_->add_lost({publisher.channel, sample.first_lost, sample.lost, sample.log_time});
  if (!sample.has_sample) return;
  writer_->add_message(outgoing(sample));
  if (first_time_ == 0) first_time_ = std::max<std::uint64_t>(sample.log_time, 1);
}

void RecordOutput::commit() { writer_->commit(); }

void RecordOutput::finish() {
  if (writer_) writer_->finish();
}

std::uint64_t RecordOutput::messages() const noexcept {
  return earlier_messages_ + (writer_ ? writer_->messages() : 0);
}

std::uint64_t RecordOutput::bytes() const noexcept {
  return earlier_bytes_ + (writer_ ? writer_->bytes() : 0);
}

}  // namespace tensorbus::bus
