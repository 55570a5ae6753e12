// The report of a participant (INSPECTED). A report that decodes, or that has any fields, is
// encoded and decoded again without a change.

#include <chrono>
#include <concepts>
#include <string>
#include <tensorbus/internal/fields.hpp>
#include <vector>

#include "fuzz/fuzz.hpp"
#include "tensorbus/bus/inspect/report_codec.hpp"

namespace tensorbus::fuzz {
namespace {

class ReportFiller {
 public:
  explicit ReportFiller(Input& input) : input_(input) {}
  void operator()(const char*, auto& field) { fill(field); }
  void fill(tensorbus::internal::HasList auto& report) {
    tensorbus::internal::list_fields(*this, report);
  }

 private:
  void fill(bool& flag) { flag = input_.flag(); }
  template <std::unsigned_integral Number>
  void fill(Number& number) {
    number = static_cast<Number>(input_.number());
  }
  void fill(std::chrono::nanoseconds& time) {
    time = std::chrono::nanoseconds(static_cast<std::int64_t>(input_.number() >> 1U));
  }
  void fill(Access& access) { access = static_cast<Access>(input_.below(3)); }
  void fill(std::string& text) { text = text_of(input_.bytes(input_.below(40))); }
  void fill(Id& id) { id = {{input_.byte()}}; }
  template <typename Part>
  void fill(std::vector<Part>& parts) {
    parts.resize(input_.below(4));
    for (Part& part : parts) fill(part);
  }

  Input& input_;
};

void check_again(const ParticipantReport& report) {
  const std::vector<std::byte> written = bus::encode_report(report);
  check(bus::encode_report(bus::decode_report(written)) == written);
}

void run(Input input) {
  if (input.flag()) {
    ParticipantReport report;
    ReportFiller(input).fill(report);
    return check_again(report);
  }
  ParticipantReport report;
  if (accepts([&] { report = bus::decode_report(input.rest()); })) check_again(report);
}

}  // namespace
}  // namespace tensorbus::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tensorbus::fuzz::run(tensorbus::fuzz::Input(data, size));
  return 0;
}
