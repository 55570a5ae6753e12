#include "tensorbus/cli/values/message.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <map>
#include <system_error>

#include "tensorbus/cli/json.hpp"
#include "tensorbus/cli/texts.hpp"
#include "tensorbus/cli/values/figures.hpp"
#include "tensorbus/cli/values/value_text.hpp"

namespace tensorbus::cli {
namespace {

constexpr std::size_t kMaxRows = 20;  // fields of a message that are shown as text

const Value::List* list_in(const Value& value) {
  if (value.is<Value::List>()) return &value.as<Value::List>();
  return value.is<Value::Tuple>() ? &value.as<Value::Tuple>().items : nullptr;
}

// Returns the pairs of a dict of Python that MessagePack cannot express; nothing for other values.
std::optional<Value::Map> pairs_in(const Value::List& record) {
  if (record.empty() || (record[0] != Value("dict") && record[0] != Value("OrderedDict")))
    return std::nullopt;
  Value::Map map;
  for (std::size_t i = 1; i < record.size(); ++i) {
    const Value::List* const pair = list_in(record[i]);
    if (pair == nullptr || pair->size() != 2) return std::nullopt;
    map.emplace_back(pair->front(), pair->back());
  }
  return map;
}

// Returns the tensor of another library than NumPy and PyTorch, and the number of a scalar of
// NumPy; nothing for other records.
std::optional<Value> plain_value(const Value::List& record) {
  if (record.size() == 2 && record[1].is<std::int64_t>() &&
      (record[0] == Value("dlpack") || record[0] == Value("jax") ||
       record[0] == Value("memoryview")) &&
      std::in_range<std::uint32_t>(record[1].as<std::int64_t>()))
    return TensorIndex{static_cast<std::uint32_t>(record[1].as<std::int64_t>())};
  if (record.size() == 3 && record[0] == Value("numpy.scalar") && record[1].is<std::string>() &&
      record[2].is<Value::Bytes>())
    return number_of(record[1].as<std::string>(), record[2].as<Value::Bytes>());
  return std::nullopt;
}

bool is_set(const Value::List& record) {
  return !record.empty() && (record[0] == Value("set") || record[0] == Value("frozenset"));
}

// The last one of each name, in the place of the first one: 1 and "1" have one name.
std::vector<Message::Field> with_unique_names(const std::vector<Message::Field>& fields) {
  std::vector<Message::Field> found;
  std::map<std::string, std::size_t> places;
  for (const Message::Field& field : fields) {
    const auto [place, is_new] = places.emplace(field.first, found.size());
    if (is_new)
      found.push_back(field);
    else
      found[place->second].second = field.second;
  }
  return found;
}

void add_number(std::string& text, const std::optional<double>& number) {
  text += number ? json_text(*number) : "null";
}

}  // namespace

Message::Message(Value value, std::span<const Tensor> tensors, std::size_t depth)
    : value_(std::move(value)), tensors_(tensors), depth_(depth) {
  // A record has bytes of its own, so that the limit of a message does not hold for what is in it.
  constexpr std::size_t kMaxDepth = 64;
  if (depth > kMaxDepth) throw Error(Code::kProtocol, "sample.fields: nested too deep");
  if (value_.is<Value::Extension>())
    if (const auto found = plain_value(internal::record_in(value_))) value_ = *found;
}

Message::Message(const Sample& sample)
    : Message(sample.field_bytes().empty() && sample.tensors().size() == 1 ? Value(TensorIndex{0})
                                                                           : sample.fields(),
              sample.tensors()) {}

const Tensor* Message::tensor() const {
  if (!value_.is<TensorIndex>()) return nullptr;
  const std::uint32_t index = value_.as<TensorIndex>().index;
  return index < tensors_.size() ? &tensors_[index] : nullptr;
}

std::optional<std::vector<Message::Field>> Message::fields() const {
  std::optional<Value::Map> map;
  if (value_.is<Value::Map>()) {
    map = value_.as<Value::Map>();
  } else if (value_.is<Value::Extension>()) {
    const auto message = internal::message_in(value_);
    map = message ? message->second.as<Value::Map>() : pairs_in(internal::record_in(value_));
  }
  if (!map) return std::nullopt;
  std::vector<Field> found;
  for (const auto& [name, value] : *map) found.emplace_back(plain_text(name), part(value));
  return found;
}

std::optional<std::vector<Message>> Message::items() const {
  std::vector<Message> found;
  if (const Value::List* const list = list_in(value_)) {
    for (const Value& item : *list) found.push_back(part(item));
    return found;
  }
  return std::nullopt;
}

std::optional<Message> Message::at(std::string_view path) const {
  const std::size_t dot = path.find('.');
  const std::string_view name = path.substr(0, dot);
  std::optional<Message> found;
  if (const auto named = fields()) {
    const auto field = std::ranges::find(*named, name, &Field::first);
    if (field != named->end()) found = field->second;
  } else if (const auto list = items()) {
    std::int64_t index = -1;
    const auto end = name.data() + name.size();
    const auto read = std::from_chars(name.data(), end, index);
    if (index < 0) index += static_cast<std::int64_t>(list->size());
    if (read.ec == std::errc() && read.ptr == end && index >= 0 &&
        index < static_cast<std::int64_t>(list->size()))
      found = (*list)[static_cast<std::size_t>(index)];
  }
  if (!found || dot == std::string_view::npos) return found;
  return found->at(path.substr(dot + 1));
}

std::vector<std::string> Message::lines() const {
  std::vector<std::string> lines;
  add_lines(lines, "", "");
  return lines;
}

bool Message::is_inner() const {
  return tensor() != nullptr || items().has_value() || fields().has_value();
}

void Message::add_lines(std::vector<std::string>& lines, const std::string& name,
                        const std::string& indent) const {
  auto found = fields();
  if (const auto list = items(); list && std::ranges::any_of(*list, &Message::is_inner)) {
    found.emplace();
    for (const Message& item : *list) found->emplace_back(std::to_string(found->size()), item);
  }
  const std::string label = indent + (name.empty() ? "" : shown(name) + ':');
  if (!found) {
    const std::string text =
        tensor() != nullptr ? figures_of(*tensor()).text() : shown(value_text(value_));
    return lines.push_back(label + (name.empty() ? "" : " ") + text);
  }
  if (!name.empty()) lines.push_back(label);
  const std::string inner = indent + (name.empty() ? "" : "  ");
  for (std::size_t i = 0; i < std::min(found->size(), kMaxRows); ++i)
    (*found)[i].second.add_lines(lines, (*found)[i].first, inner);
  if (found->size() > kMaxRows)
    lines.push_back(inner + "... " + std::to_string(found->size() - kMaxRows) + " more");
}

std::string Message::json() const {
  std::string text;
  add_json(text);
  return text;
}

void Message::add_json(std::string& text) const {
  const char* comma = "";
  if (const auto found = fields()) {
    text += '{';
    for (const auto& [name, value] : with_unique_names(*found)) {
      text.append(std::exchange(comma, ", ")).append(json_text(name)).append(": ");
      value.add_json(text);
    }
    text += '}';
  } else if (const auto list = items()) {
    text += '[';
    for (const Message& item : *list) {
      text += std::exchange(comma, ", ");
      item.add_json(text);
    }
    text += ']';
  } else if (tensor() != nullptr) {
    const Figures figures = figures_of(*tensor());
    text += "{\"dtype\": " + json_text(figures.dtype) + ", \"shape\": [";
    for (const std::int64_t size : figures.shape)
      text.append(std::exchange(comma, ", ")).append(std::to_string(size));
    text += "], \"device\": " + json_text(figures.device) + ", \"min\": ";
    add_number(text, figures.known(&Extent::min));
    text += ", \"mean\": ";
    add_number(text, figures.known(&Extent::mean));
    text += ", \"max\": ";
    add_number(text, figures.known(&Extent::max));
    text += ", \"nan_count\": " +
            (figures.nan_count ? std::to_string(*figures.nan_count) : std::string("null")) +
            ", \"first\": ";
    part(figures.first).add_json(text);
    text += '}';
  } else if (value_.is<std::string>()) {
    text += json_text(value_.as<std::string>());
  } else if (value_.is<double>()) {
    text += json_text(value_.as<double>());
  } else if (value_.is<bool>()) {
    text += value_.as<bool>() ? "true" : "false";
  } else if (value_.is<std::int64_t>() || value_.is<std::uint64_t>()) {
    text += plain_text(value_);
  } else if (const auto number = large_number_text(value_)) {
    text += *number;
  } else if (const Value::List record = internal::record_in(value_); is_set(record)) {
    part(Value::List(record.begin() + 1, record.end())).add_json(text);
  } else if (value_.is<std::nullptr_t>()) {
    text += "null";
  } else {
    text += json_text(value_text(value_));
  }
}

std::vector<Message::Cell> Message::cells(const std::string& name) const {
  std::vector<Cell> cells;
  add_cells(cells, name);
  return cells;
}

void Message::add_cells(std::vector<Cell>& cells, const std::string& name) const {
  const auto path = [&](const std::string& part) {
    return name.empty() ? part : name + '.' + part;
  };
  if (const auto found = fields()) {
    for (const auto& [key, value] : *found) value.add_cells(cells, path(key));
  } else if (const auto list = items()) {
    for (std::size_t i = 0; i < list->size(); ++i)
      (*list)[i].add_cells(cells, path(std::to_string(i)));
  } else if (tensor() != nullptr) {
    const Figures figures = figures_of(*tensor());
    if (figures.has_all()) return part(figures.first).add_cells(cells, name);
    const auto number = [&](double Extent::* field) {
      const auto known = figures.known(field);
      return known ? number_text(*known) : "";
    };
    cells.emplace_back(path("min"), number(&Extent::min));
    cells.emplace_back(path("mean"), number(&Extent::mean));
    cells.emplace_back(path("max"), number(&Extent::max));
    cells.emplace_back(path("nan_count"),
                       figures.nan_count ? std::to_string(*figures.nan_count) : "");
  } else {
    cells.emplace_back(name.empty() ? "data" : name,
                       value_.is<std::nullptr_t>() ? "" : plain_text(value_));
  }
}

}  // namespace tensorbus::cli
