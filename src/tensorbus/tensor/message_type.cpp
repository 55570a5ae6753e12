#include "tensorbus/tensor/message_type.hpp"

#include <algorithm>
#include <utility>

#include "tensorbus/platform/error.hpp"

namespace tensorbus {
namespace {

constexpr std::string_view kLeftOut = " = ...";

// The lines of a text, one after the other.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}
  bool next(std::string_view& line) noexcept {
    if (at_end_) return false;
    const std::size_t end = rest_.find('\n');
    line = rest_.substr(0, end);
    at_end_ = end == std::string_view::npos;
    rest_.remove_prefix(at_end_ ? rest_.size() : end + 1);
    return true;
  }

 private:
  std::string_view rest_;
  bool at_end_ = false;
};

std::string_view without_default(std::string_view line) {
  if (line.ends_with(kLeftOut)) line.remove_suffix(kLeftOut.size());
  return line;
}

std::uint64_t hash(std::uint64_t state, std::string_view text) {
  for (const char byte : text)
    state = (state ^ static_cast<unsigned char>(byte)) * std::uint64_t{0x100000001b3};
  return state;
}

std::uint64_t fingerprint_of(std::string_view definition) {
  std::uint64_t state = 0xcbf29ce484222325;
  Lines lines(definition);
  std::string_view line;
  lines.next(line);  // the name, which may end like a default
  state = hash(state, line);
  while (lines.next(line)) state = hash(hash(state, "\n"), without_default(line));
  return std::max<std::uint64_t>(state, 1);
}

[[noreturn]] void refuse(std::string_view line) {
  throw Error(Code::kInvalidArgument,
              "no definition of a message type: \"" + std::string(line.substr(0, 100)) +
                  "\": expected a name, and \"field: type\" for each field");
}

}  // namespace

MessageType::MessageType(std::string definition) : definition_(std::move(definition)) {
  if (name().empty() || name().find(": ") != std::string_view::npos) refuse(name());
  fields();
  fingerprint_ = fingerprint_of(definition_);
}

std::string_view MessageType::name() const noexcept {
  return std::string_view(definition_).substr(0, definition_.find('\n'));
}

std::map<std::string_view, MessageType::Field> MessageType::fields() const {
  std::map<std::string_view, Field> fields;
  Lines lines(definition_);
  std::string_view line;
  lines.next(line);  // the name
  while (lines.next(line)) {
    const std::string_view field = without_default(line);
    const std::size_t colon = field.find(": ");
    if (colon == 0 || colon == std::string_view::npos || colon + 2 == field.size()) refuse(line);
    const bool is_new = fields
                            .emplace(field.substr(0, colon),
                                     Field{field.substr(colon + 2), field.size() != line.size()})
                            .second;
    if (!is_new) refuse(line);
  }
  return fields;
}

std::string MessageType::why_not(const MessageType& written) const {
  if (is_any() || written.is_any() || fingerprint_ == written.fingerprint_) return {};
  if (name() != written.name())
    return "expected " + std::string(name()) + ", published is " + std::string(written.name());
  const auto theirs = written.fields();
  for (const auto& [field, wanted] : fields()) {
    const auto found = theirs.find(field);
    const std::string what = std::string(name()) + "." + std::string(field);
    if (found == theirs.end() && !wanted.may_be_left_out)
      return what + " is not published, and has no default";
    if (found != theirs.end() && found->second.type != wanted.type)
      return what + ": expected " + std::string(wanted.type) + ", published is " +
             std::string(found->second.type);
  }
  return {};
}

}  // namespace tensorbus
