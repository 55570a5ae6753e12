#pragma once

// Control messages of every type, with fields that may be valid.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/fuzz.hpp"
#include "tensorbus/link/wire/control_messages.hpp"

namespace tensorbus::fuzz {

class FieldFiller {
 public:
  explicit FieldFiller(Input& input) : input_(input) {}
  void operator()(auto&... fields) { (fill(fields), ...); }

 private:
  void fill(Id& id) { id = {{input_.byte()}}; }
  void fill(std::uint32_t& number) { number = input_.below(8); }
  void fill(std::uint64_t& number) { number = input_.number(); }
  void fill(std::string& text) { text = text_of(input_.bytes(input_.below(64))); }
  void fill(memory::SegmentId& segment) {
    const std::uint32_t kind = input_.below(4);
    const std::uint32_t index = input_.below(8);
    segment = kind == 0   ? memory::SegmentId::host(index)
              : kind == 1 ? memory::SegmentId::device(0, index)
              : kind == 2 ? memory::SegmentId::foreign(index)
                          : memory::SegmentId::file(index);
  }
  template <typename Part>
  void fill(std::vector<Part>& parts) {
    parts.resize(input_.below(4));
    for (Part& part : parts) fill(part);
  }
  void fill(link::HasFields auto& part) { part.visit(*this); }

  Input& input_;
};

template <typename Message>
Message seed_of(Input& input) {
  Message message;
  FieldFiller fill(input);
  message.visit(fill);
  return message;
}

// Returns a datagram with the message that the input selects.
inline std::vector<std::byte> control_seed(Input& input) {
  std::size_t left = input.byte();
  std::vector<std::byte> seed;
  while (seed.empty())
    link::for_each_control_message([&]<typename Row>(Row) {
      if (left-- == 0) seed = link::encode_control(seed_of<typename Row::Message>(input));
    });
  return seed;
}

// Runs one input for each type of message, from which control_seed() makes the message. `before`:
// the bytes with which a target calls control_seed().
template <typename Run>
void run_each_message(std::vector<std::uint8_t> before, Run run) {
  std::uint8_t which = 0;
  link::for_each_control_message([&](auto) {
    std::vector<std::uint8_t> bytes = before;
    bytes.push_back(which++);
    while (bytes.size() < 128) bytes.push_back(static_cast<std::uint8_t>(7 * bytes.size()));
    run(bytes.data(), bytes.size());
  });
}

}  // namespace tensorbus::fuzz
