#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <tensorbus/internal/fields.hpp>
#include <tensorbus/values/id.hpp>
#include <tensorbus/values/inspected.hpp>
#include <utility>
#include <vector>

namespace tensorbus::cli {

// Values as JSON, in ASCII. A byte that is not UTF-8 is the escape of a lone surrogate, which JSON
// does not have; NaN and infinities are texts.
std::string json_text(std::string_view text);
std::string json_text(double number);

// One line of JSON: an object with a kind, as docs/reference/command_line.md lists them.
//
//   Record("rate").field("topic", name).field("hz", 30.0).print();
class Record {
 public:
  explicit Record(std::string_view kind) { field("kind", kind); }

  Record& field(std::string_view name, const auto& value) {
    text_ += text_.empty() ? "{" : ", ";
    put(name);
    text_ += ": ";
    put(value);
    return *this;
  }
  // A field whose value is JSON.
  Record& json(std::string_view name, std::string_view value) {
    text_ += ", ";
    put(name);
    text_.append(": ").append(value);
    return *this;
  }
  // The fields of a report without those of these names.
  template <internal::HasList Report, std::same_as<std::string_view>... Names>
  Record& fields(const Report& report, Names... without) {
    put_fields<Names...>(report, ", ", {without...});
    return *this;
  }
  // The program and the pid of a process.
  Record& process(const ParticipantReport& process) {
    return field("process", process.process).field("pid", process.pid);
  }
  // Adds the line to standard output.
  void add() const;
  // The same, and writes it: the reader may be a program that waits.
  void print() const;

 private:
  // For list_fields().
  template <std::size_t count>
  struct Fields {
    Record& to;
    const char* comma;  // before the next field
    std::array<std::string_view, count> without;
    bool is_silent = false;  // a process that did not reply: it has no memory

    void operator()(std::string_view name, const auto& value) {
      if (std::ranges::find(without, name) != without.end()) return;
      to.text_ += std::exchange(comma, ", ");
      to.put(name);
      to.text_ += ": ";
      if constexpr (std::same_as<decltype(value), const MemoryReport&>)
        if (is_silent) return void(to.text_ += "null");
      to.put(value);
    }
  };
  template <typename... Names, internal::HasList Report>
  void put_fields(const Report& report, const char* comma,
                  std::array<std::string_view, sizeof...(Names)> without = {}) {
    Fields<sizeof...(Names)> each{*this, comma, without};
    if constexpr (std::same_as<Report, ParticipantReport>) each.is_silent = !report.error.empty();
    internal::list_fields(each, report);
  }

  template <internal::HasList Report>
  void put(const Report& report) {
    text_ += '{';
    put_fields(report, "");
    text_ += '}';
  }
  template <typename Item>
  void put(const std::vector<Item>& items) {
    text_ += '[';
    for (const Item& item : items) {
      text_ += &item == items.data() ? "" : ", ";
      put(item);
    }
    text_ += ']';
  }
  void put(const std::map<std::string, std::string>& texts) {
    text_ += '{';
    for (const char* comma = ""; const auto& [name, text] : texts) {
      text_ += std::exchange(comma, ", ");
      put(name);
      text_ += ": ";
      put(text);
    }
    text_ += '}';
  }
  void put(std::string_view text) { text_ += json_text(text); }
  void put(const std::string& text) { put(std::string_view(text)); }
  void put(const char* text) { put(std::string_view(text)); }
  void put(double number) { text_ += json_text(number); }
  void put(bool flag) { text_ += flag ? "true" : "false"; }
  void put(std::integral auto number) { text_ += std::to_string(number); }
  void put(std::chrono::nanoseconds time) { put(time.count()); }
  void put(const Id& id) { put(id == Id{} ? "" : id.hex()); }
  void put(Access access);

  std::string text_;
};

}  // namespace tensorbus::cli
