#pragma once

#include <tensorbus/c/recording.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "tensorbus/c/objects.hpp"
#include "tensorbus/recording/recording.hpp"

struct tb_recording {
  explicit tb_recording(const char* path) : recording(path), topics(recording.topics()) {
    for (const tensorbus::RecordedTopic& topic : topics) {
      std::vector<const char*>& texts = types.emplace_back();
      for (const std::string& type : topic.types) texts.push_back(type.c_str());
    }
  }
  const tensorbus::recording::Recording recording;
  const std::vector<tensorbus::RecordedTopic> topics;
  std::vector<std::vector<const char*>> types;  // of each topic
};

namespace tensorbus::c {

inline std::vector<std::string> texts_of(const char* const* given, std::size_t count,
                                         const char* name) {
  std::vector<std::string> texts;
  if (count > 0) (void)required(given, name);
  for (std::size_t i = 0; i < count; ++i) texts.emplace_back(text_of(given[i], name));
  return texts;
}

inline std::string text_or_none(const char* given) { return given == nullptr ? "" : given; }

// Copies a text, truncated to `bytes` including the terminating zero.
inline void give_text(const std::string& from, char* text, std::size_t bytes) {
  if (bytes == 0) return;
  (void)required(text, "text");
  const std::size_t count = std::min(from.size(), bytes - 1);
  std::copy_n(from.data(), count, text);
  text[count] = '\0';
}

}  // namespace tensorbus::c
