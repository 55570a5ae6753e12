// Types of peers: definitions, which arrive with a subscription, and the markers that list them. A
// second implementation decides how each is read, or whether it is refused.

#include <optional>
#include <string>
#include <string_view>
#include <tensorbus/values/message_type.hpp>
#include <utility>
#include <vector>

#include "fuzz/fuzz.hpp"
#include "tensorbus/bus/domain/advertisement.hpp"

namespace tensorbus::fuzz {
namespace {

constexpr std::string_view kColon = ": ";
constexpr std::string_view kLeftOut = " = ...";

// A definition as docs/messages.md describes it.
struct Book {
  struct Field {
    std::string name;
    std::string type;
    bool may_be_left_out = false;
  };
  std::string name;
  std::vector<Field> fields;

  const Field* find(std::string_view wanted) const {
    for (const Field& field : fields)
      if (field.name == wanted) return &field;
    return nullptr;
  }
  bool same_but_for_defaults(const Book& other) const {
    return name == other.name &&
           std::ranges::equal(fields, other.fields, [](const Field& a, const Field& b) {
             return a.name == b.name && a.type == b.type;
           });
  }
  bool reads(const Book& written) const {
    if (name != written.name) return false;
    return std::ranges::all_of(fields, [&](const Field& field) {
      const Field* const found = written.find(field.name);
      return found == nullptr ? field.may_be_left_out : found->type == field.type;
    });
  }
  std::string definition() const {
    std::string text = name;
    for (const Field& field : fields) {
      text.append("\n").append(field.name).append(kColon).append(field.type);
      if (field.may_be_left_out) text += kLeftOut;
    }
    return text;
  }
};

std::optional<Book::Field> field_of(std::string_view line) {
  Book::Field field;
  field.may_be_left_out = line.ends_with(kLeftOut);
  if (field.may_be_left_out) line.remove_suffix(kLeftOut.size());
  const std::size_t colon = line.find(kColon);
  if (colon == line.npos) return std::nullopt;
  field.name = line.substr(0, colon);
  field.type = line.substr(colon + kColon.size());
  if (field.name.empty() || field.type.empty()) return std::nullopt;
  return field;
}

std::optional<Book> book_of(std::string_view text) {
  std::size_t end = std::min(text.find('\n'), text.size());
  Book book{std::string(text.substr(0, end)), {}};
  if (book.name.empty() || book.name.find(kColon) != book.name.npos) return std::nullopt;
  while (end < text.size()) {
    text.remove_prefix(end + 1);
    end = std::min(text.find('\n'), text.size());
    auto field = field_of(text.substr(0, end));
    if (!field || book.find(field->name) != nullptr) return std::nullopt;
    book.fields.push_back(*std::move(field));
  }
  return book;
}

struct Read {
  MessageType type;
  Book book;
};

// Returns an empty value if the definition was refused, and had to be refused.
std::optional<Read> read_definition(std::string_view text) {
  const std::optional<Book> book = book_of(text);
  MessageType type;
  const bool read = accepts([&] { type = MessageType(std::string(text)); }, Code::kInvalidArgument);
  check(read == book.has_value());
  if (!book) return std::nullopt;
  check(type.definition() == text && type.name() == book->name && book->definition() == text);
  check(!type.is_any() && type.fingerprint() != 0);
  check(type.why_not(type).empty());
  check(type.why_not(MessageType()).empty() && MessageType().why_not(type).empty());
  return Read{std::move(type), *book};
}

void require_verdict(const Read& wanted, const Read& written) {
  check((wanted.type.fingerprint() == written.type.fingerprint()) ==
        wanted.book.same_but_for_defaults(written.book));
  const std::string why = wanted.type.why_not(written.type);
  check(why.empty() == wanted.book.reads(written.book));
  check(why.empty() || why.find(wanted.book.name) != why.npos);
}

void compare(std::string_view both) {
  const std::size_t end = std::min(both.find('\0'), both.size());
  const auto one = read_definition(both.substr(0, end));
  const auto other = read_definition(both.substr(std::min(end + 1, both.size())));
  if (!one || !other) return;
  require_verdict(*one, *other);
  require_verdict(*other, *one);
}

void read_marker(std::string_view content) {
  const auto advertisement = bus::decode_advertisement(content);
  if (!advertisement) return;
  check(bus::encode(*advertisement).starts_with(content));
  (void)read_definition(advertisement->definition);
}

void write_marker(Input input) {
  bus::Advertisement advertisement{.pid = input.take<std::uint32_t>()};
  advertisement.name = text_of(input.bytes(input.byte()));
  advertisement.node = text_of(input.bytes(input.byte()));
  advertisement.definition = text_of(input.rest());
  const std::string content = bus::encode(advertisement);
  const auto again = bus::decode_advertisement(content);
  check(again && again->pid == advertisement.pid && again->name == advertisement.name &&
        again->node == advertisement.node && again->definition == advertisement.definition);
  constexpr std::size_t kSinceMirrors = 5 * sizeof(std::uint32_t);  // an older process wrote less
  for (const std::size_t left : {std::size_t{0}, content.size() - kSinceMirrors - 1,
                                 content.size() - kSinceMirrors + 1, content.size() - 1})
    check(!bus::decode_advertisement(std::string_view(content).substr(0, left)));
  check(!bus::decode_advertisement(content + '\0'));
}

void run(Input input) {
  const std::uint8_t way = input.byte();
  if (way % 4 == 0) return read_marker(text_of(input.rest()));
  if (way % 4 == 1) return write_marker(input);
  compare(text_of(input.rest()));
}

}  // namespace
}  // namespace tensorbus::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tensorbus::fuzz::run({data, size});
  return 0;
}
