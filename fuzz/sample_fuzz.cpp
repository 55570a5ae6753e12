// A ring entry, a descriptor and the segments that they refer to, all written by the owner. Every
// byte of every tensor lies in a segment that the owner has sent, and the lease is returned once.

#include <array>
#include <complex>
#include <map>
#include <memory>
#include <vector>

#include "fuzz/fuzz.hpp"
#include "fuzz/wild_descriptor.hpp"
#include "tensorbus/bus/subscribe/sample_data.hpp"
#include "tensorbus/link/ring/borrower_link.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tests/fakes/test_sockets.hpp"

namespace tensorbus::fuzz {
namespace {

// A segment, in its owner's mapping.
struct Owned {
  explicit Owned(std::size_t bytes)
      : memfd(platform::create_sealed_memfd("fuzz", bytes)),
        mapping(memfd.get(), bytes, platform::Mapping::Access::kReadWrite) {}
  platform::Fd memfd;
  platform::Mapping mapping;
};

// The objects that outlive an input. The socket has no peer: messages are dropped.
struct World {
  World() {
    connected->channel =
        std::make_shared<link::Channel>(link::testing::connected_sockets().one, [](bool) {});
    connected->wake_page = link::map_peer_wake_page(wake_page.memfd());
    for (auto& [id, segment] : segments) {
      connected->segments.add(id, platform::reopen_read_only(segment.memfd.get()),
                              segment.mapping.size());
      connected->writable_segments.add(id, platform::duplicate(segment.memfd.get()),
                                       segment.mapping.size());
    }
  }

  std::map<memory::SegmentId, Owned> segments = [] {
    std::map<memory::SegmentId, Owned> made;
    made.emplace(0, Owned(4096));
    made.emplace(1, Owned(5000));
    made.emplace(7, Owned(3 * 4096));
    return made;
  }();
  bus::SampleCache spare;  // as the last input left it
  link::WakePage wake_page;
  std::shared_ptr<link::PeerMemory> connected = std::make_shared<link::PeerMemory>();
  std::shared_ptr<const link::Source> source =
      std::make_shared<const link::Source>(link::Source{Id{}, 1, "topic"});
  link::LinkSegment rings{link::Geometry{1, 1}};
};

template <typename T>
void read_as(const bus::Tensor& tensor) {
  (void)accepts(
      [&] {
        T sum{};
        for (const T& element : tensor.as<T>()) sum += element;
      },
      Code::kInvalidArgument);
}

// Reads the elements as several types, and writes if the access allows it.
void use(const bus::Tensor& tensor, Access access, std::byte* in_segment) {
  read_as<std::uint8_t>(tensor);
  read_as<float>(tensor);
  read_as<std::uint64_t>(tensor);
  read_as<std::complex<double>>(tensor);
  check(tensor.writable() == (access != Access::kRead));
  if (!tensor.writable() || tensor.data() == nullptr) return;
  const std::byte before = *in_segment;
  *tensor.mutable_data() ^= std::byte{0xff};
  check((*in_segment == before) == (access == Access::kPrivate));
  *tensor.mutable_data() ^= std::byte{0xff};
}

void require_in_segment(World& world, const tensor::TensorEntry& entry, const bus::Tensor& tensor) {
  const ByteSpan span = span_of(entry.layout);
  check(tensor.shape() == entry.layout.shape && tensor.strides() == entry.layout.strides);
  if (span.bytes() == 0) return check(tensor.data() == nullptr);
  const platform::Mapping& segment = world.segments.at(entry.segment).mapping;
  check(entry.offset <= segment.size());
  check(static_cast<std::int64_t>(entry.offset) + span.begin >= 0);
  check(entry.offset + static_cast<std::uint64_t>(span.end) <= segment.size());
  // All bytes of the span are there, as the owner wrote them.
  check(std::memcmp(tensor.data() + span.begin, segment.data() + entry.offset + span.begin,
                    span.bytes()) == 0);
}

void look_at(World& world, const link::Entry& entry, const bus::Sample& sample, Access access,
             std::span<const std::byte> descriptor_bytes) {
  const std::vector<std::byte> copied(descriptor_bytes.begin(), descriptor_bytes.end());
  const tensor::Descriptor descriptor = tensor::Descriptor::decode(copied);
  check(sample.header().sequence == entry.sequence && sample.header().topic == "topic");
  check(std::ranges::equal(sample.field_bytes(), descriptor.fields));
  check(sample.tensors().size() == descriptor.tensors.size());
  const bus::Sample copy = sample.copy();
  for (std::size_t i = 0; i < descriptor.tensors.size(); ++i)
    require_in_segment(world, descriptor.tensors[i], sample.tensors()[i]);
  for (std::size_t i = 0; i < descriptor.tensors.size(); ++i) {
    const tensor::TensorEntry& from = descriptor.tensors[i];
    const bool empty = span_of(from.layout).bytes() == 0;
    use(sample.tensors()[i], access,
        empty ? nullptr : world.segments.at(from.segment).mapping.data() + from.offset);
    check(copy.tensors()[i].shape() == from.layout.shape);
    if (!empty) check(*copy.tensors()[i].data() == *sample.tensors()[i].data());
  }
  Value fields;
  if (accepts([&] { fields = sample.fields(); }) && fields.find("image") != nullptr) try {
      (void)sample.tensor("image");
    } catch (const Error&) {
    }
}

void run(Input input) {
  static World world;
  const auto access = static_cast<Access>(input.below(3));
  for (auto& [id, segment] : world.segments)
    std::memset(segment.mapping.data(), 0, segment.mapping.size());
  for (link::Slot& slot : world.rings.slots()) slot.state = 0;

  auto link = std::make_shared<link::BorrowerLink>(
      1, world.source, world.connected,
      access == Access::kShared ? memory::Grant::kWrite : memory::Grant::kRead);
  link->accept({.link = 1, .slots = 1, .returns = 1, .max_held = 1},
               platform::duplicate(world.rings.memfd().get()));

  link::Entry entry;
  entry.sequence = input.byte();
  entry.segment = input.flag() ? memory::SegmentId::none() : kWildSegments[input.below(4)];
  entry.offset = input.number();
  const std::vector<std::byte> descriptor = wild_descriptor(input);
  entry.length = static_cast<std::uint32_t>(input.flag() ? descriptor.size() : input.number());
  std::span<const std::byte> place;
  if (entry.is_inline()) {
    std::memcpy(entry.inline_bytes.data(), descriptor.data(),
                std::min(descriptor.size(), link::kInlineBytes));
    place = std::span(entry.inline_bytes).first(std::min<std::size_t>(entry.length, 64));
  } else if (const auto found = world.segments.find(entry.segment);
             found != world.segments.end() && entry.offset < found->second.mapping.size()) {
    const std::span<std::byte> room(found->second.mapping.data() + entry.offset,
                                    found->second.mapping.size() - entry.offset);
    std::memcpy(room.data(), descriptor.data(), std::min(descriptor.size(), room.size()));
    place = room.first(std::min<std::size_t>(entry.length, room.size()));
  }

  link::SampleRingWriter(world.rings.slots()).push(0, entry);
  link::Entry popped;
  check(link->pop(popped) && link->held() == 1);
  std::optional<bus::Sample> sample;
  auto read = bus::SampleData::Read::kDone;
  if (entry.sequence % 2 == 0) world.spare.refill();
  if (!accepts([&] {
        read =
            bus::SampleData::read(sample.emplace(), link, popped, {.access = access}, world.spare);
      }))
    return check(link->held() == 0);
  const bool of_fields = read == bus::SampleData::Read::kFieldsAlone;
  if (of_fields) {  // the sample is complete without its lease
    check(link->held() == 1 && sample->tensors().empty());
    link->release(popped.token);
  }
  if (!of_fields &&
      read != bus::SampleData::Read::kDone) {  // the sample must wait, and keeps its lease
    check(link->held() == 1);
    return link->release(popped.token);
  }
  check(place.size() == entry.length);
  look_at(world, entry, *sample, access, place);
  sample.reset();
  check(link->held() == 0);
}

}  // namespace
}  // namespace tensorbus::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tensorbus::fuzz::run({data, size});
  return 0;
}
