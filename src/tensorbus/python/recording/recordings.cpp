// Recorders and recordings. tensorbus/_recording is the public interface.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "tensorbus/python/bindings.hpp"
#include "tensorbus/python/inspect/counters.hpp"
#include "tensorbus/python/waiting.hpp"
#include "tensorbus/recording/recorder.hpp"
#include "tensorbus/recording/recording.hpp"
#include "tensorbus/recording/recording_copy.hpp"

namespace tensorbus::python {
namespace {

nb::object snapshot(recording::Recorder& self, Seconds timeout) {
  std::string path;
  const Outcome outcome = wait_interruptibly(
      timeout, [&](const platform::StopCondition& stop) { return self.snapshot(path, stop); });
  return outcome == Outcome::kDone ? nb::cast(PathBytes{path}) : nb::cast(outcome);
}

nb::dict text_map(const tensor::mcap::TextMap& map) {
  nb::dict dict;
  for (const auto& [key, value] : map) dict[text_of(key)] = text_of(value);
  return dict;
}

// Returns for each topic: its name, the definitions of its types, the numbers of publishers,
// messages and lost messages, and the times of its first and last message.
nb::list topics_of(const recording::Recording& self) {
  nb::list list;
  for (const RecordedTopic& topic : run_without_gil([&] { return self.topics(); })) {
    nb::list types;
    for (const std::string& type : topic.types) types.append(text_of(type));
    list.append(nb::make_tuple(text_of(topic.name), types, topic.publishers, topic.messages,
                               topic.lost, topic.begin_ns, topic.end_ns));
  }
  return list;
}

// Returns the indices of messages, as the bytes of an array of 32-bit numbers.
nb::bytes select(const recording::Recording& self, const std::vector<std::string>& topics,
                 std::uint64_t begin, std::uint64_t end) {
  const auto found = run_without_gil([&] { return self.select(topics, begin, end); });
  return nb::bytes(found.data(), found.size() * sizeof found[0]);
}

std::uint64_t time_of(const recording::Recording& self, std::size_t index) {
  if (index >= self.contents().messages.size()) throw nb::index_error("no message has this number");
  return self.contents().messages[index].log_time;
}

// `parts`: for each recording its topics (none: all) and two times. Messages from the first time to
// before the second are copied.
nb::dict copy_recordings(
    const std::vector<std::tuple<const recording::Recording*, std::vector<std::string>,
                                 std::uint64_t, std::uint64_t>>& parts,
    const PathBytes& path, bool overwrite, const std::optional<std::string>& compress,
    const std::map<std::string, std::string>& compress_topics) {
  std::vector<recording::RecordingPart> taken;
  for (const auto& [recording, topics, begin, end] : parts)
    taken.push_back({*recording, topics, begin, end});
  const recording::CopyOptions options{
      .path = path.bytes,
      .overwrite = overwrite,
      .keep_compression = !compress,
      .compression = recording::record_compression(compress.value_or(""), compress_topics)};
  const recording::CopiedMessages copied =
      run_without_gil([&] { return recording::copy_messages(taken, options); });
  nb::dict dict;
  dict["messages"] = copied.messages;
  dict["bytes"] = copied.bytes;
  dict["unreadable"] = copied.unreadable;
  dict["error"] = text_of(copied.error);
  return dict;
}

// `strict` is true: no library may write to the memory of a file, because other processes may map
// it too. PyTorch has no read-only tensors, so it could write to it.
ReceivedSample sample_in(const recording::Recording& self, std::size_t index) {
  return ReceivedSample(self.sample(index), true);
}

}  // namespace

void bind_recordings(nb::module_& module) {
  nb::class_<recording::Recorder>(module, "Recorder", "Writes topics to a file.")
      .def(
          "__init__",
          [](recording::Recorder* self, const PathBytes& path,
             const std::vector<std::string>& topics, bool all, const std::string& pattern,
             bool reliable, std::uint64_t buffer_bytes, std::uint32_t depth, bool overwrite,
             std::uint64_t split_bytes, double split_seconds, double snapshot_seconds,
             const std::string& compress, const std::map<std::string, std::string>& compress_topics,
             const PathBytes& domain) {
            const WithoutGil release;
            new (self) recording::Recorder({.path = path.bytes,
                                            .topics = topics,
                                            .all = all,
                                            .pattern = pattern,
                                            .reliable = reliable,
                                            .buffer_bytes = buffer_bytes,
                                            .depth = depth,
                                            .overwrite = overwrite,
                                            .split_bytes = split_bytes,
                                            .split_time = to_timeout(split_seconds),
                                            .snapshot_time = to_timeout(snapshot_seconds),
                                            .compress = compress,
                                            .compress_topics = compress_topics,
                                            .domain = domain.bytes});
          },
          nb::arg("path"), nb::arg("topics"), nb::kw_only(), nb::arg("all"), nb::arg("pattern"),
          nb::arg("reliable"), nb::arg("buffer_bytes"), nb::arg("depth"), nb::arg("overwrite"),
          nb::arg("split_bytes"), nb::arg("split_seconds"), nb::arg("snapshot_seconds"),
          nb::arg("compress"), nb::arg("compress_topics"), nb::arg("domain"),
          nb::sig(
              "def __init__(self, path: str, topics: collections.abc.Sequence[str], *, all: "
              "bool, pattern: str, reliable: bool, buffer_bytes: int, depth: int, overwrite: "
              "bool, split_bytes: int, split_seconds: float, snapshot_seconds: float, compress: "
              "str, compress_topics: collections.abc.Mapping[str, str], domain: str) -> None"))
      .def("snapshot", snapshot, nb::arg("timeout").none(),
           nb::sig("def snapshot(self, timeout: float | None) -> str | Outcome"),
           "Writes the kept messages to a file. Returns its path, or the Outcome.")
      .def(
          "wait",
          [](recording::Recorder& self, Seconds timeout) {
            return wait_interruptibly(
                timeout, [&](const platform::StopCondition& stop) { return self.wait(stop); });
          },
          nb::arg("timeout").none(), nb::sig("def wait(self, timeout: float | None) -> Outcome"),
          "Waits until an error has ended the recorder; then returns DONE.")
      .def_prop_ro(
          "stats", [](const recording::Recorder& self) { return dict_of(self.stats()); },
          nb::sig("def stats(self) -> dict[str, Any]"))
      .def("close", &recording::Recorder::close, nb::call_guard<WithoutGil>());

  nb::class_<recording::Recording>(module, "Recording",
                                   "A mapped file that a Recorder has written.")
      .def(
          "__init__",
          [](recording::Recording* self, const PathBytes& path) {
            const WithoutGil release;
            new (self) recording::Recording(path.bytes);
          },
          nb::arg("path"))
      .def("__len__",
           [](const recording::Recording& self) { return self.contents().messages.size(); })
      .def_prop_ro(
          "about", [](const recording::Recording& self) { return text_map(self.contents().about); },
          nb::sig("def about(self) -> dict[str, str]"), "Metadata from the recorder.")
      .def_prop_ro(
          "topics", topics_of,
          nb::sig("def topics(self) -> list[tuple[str, list[str], int, int, int, int, int]]"),
          "For each topic: its name, the definitions of its types, the numbers of publishers, "
          "messages and lost messages, and the times of its first and last message.")
      .def_prop_ro(
          "recovered",
          [](const recording::Recording& self) { return text_of(self.contents().recovered); })
      .def_prop_ro("damage",
                   [](const recording::Recording& self) { return text_of(self.contents().damage); })
      .def_prop_ro("file_bytes",
                   [](const recording::Recording& self) { return self.file().bytes().size(); })
      .def("select", select, nb::arg("topics"), nb::arg("begin"), nb::arg("end"),
           nb::sig("def select(self, topics: collections.abc.Sequence[str], begin: int, end: int) "
                   "-> bytes"),
           "Returns the indices of the messages on these topics (none: all) recorded from `begin` "
           "to before `end`, as an array of unsigned 32-bit numbers.")
      .def("time", time_of, nb::arg("index"),
           "Returns the time of recording, in ns since the Unix epoch.")
      .def("sample", sample_in, nb::arg("index"))
      .def(
          "check", [](const recording::Recording& self) { self.file().check(); },
          nb::call_guard<WithoutGil>());
  module.def("copy_recordings", copy_recordings, nb::arg("parts"), nb::arg("path"),
             nb::arg("overwrite"), nb::arg("compress").none(), nb::arg("compress_topics"),
             nb::sig("def copy_recordings(parts: collections.abc.Sequence[tuple[Recording, "
                     "collections.abc.Sequence[str], int, int]], path: str, overwrite: bool, "
                     "compress: str | None, compress_topics: collections.abc.Mapping[str, str]) -> "
                     "dict[str, Any]"),
             "Writes messages of several recordings to a new one. `parts`: for each recording its "
             "topics (none: all), and two times: messages from the first to before the second are "
             "taken. `compress`: None keeps the compression of each message.");
}

}  // namespace tensorbus::python
