// Tensors whose memory is a file's.

#include <unistd.h>

#include <fstream>
#include <iterator>

#include "support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

// What an entry of a .safetensors header says.
std::string entry(const std::string& dtype, const std::string& shape, int begin, int end) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":[)" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

class AFile : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder.path() + "/" + name; }
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
  }
  std::string content(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // Floats: 1, 2, and so on.
  MappedFile made(const std::string& name) const {
    MappedFile file(path(name),
                    {.mode = FileMode::kCreate, .dtype = DType::kFloat32, .shape = Dims{50, 20}});
    fill(file.tensor().as_mutable<float>(), 1);
    file.flush();
    return file;
  }
  void write_safetensors(const std::string& header, const std::string& data) const {
    std::string length(8, '\0');
    length[0] = static_cast<char>(header.size() & 0xFF);
    length[1] = static_cast<char>(header.size() >> 8);
    write("model.safetensors", length + header + data);
  }

  const FreshDomain folder;
};

constexpr FileOptions kFloats{.dtype = DType::kFloat32};

FileOptions in_mode(FileMode mode) { return {.mode = mode, .dtype = DType::kFloat32}; }

TEST_F(AFile, is_made_and_mapped_again) {
  for (const char* name : {"floats.bin", "floats.npy"}) {
    (void)made(name);
    const Tensor tensor = map_file(path(name), kFloats);
    EXPECT_TRUE(is_filled(tensor.as<float>(), 1));
    EXPECT_FALSE(tensor.writable());
    EXPECT_EQ(tensor.device(), Device::host());
    EXPECT_TRUE(tensor.intact());
  }
  EXPECT_EQ(map_file(path("floats.npy")).shape(), Dims({50, 20})) << "the file says it";
  EXPECT_EQ(map_file(path("floats.bin"), kFloats).shape(), Dims({1000}));
  const Tensor rows =
      map_file(path("floats.bin"), {.dtype = DType::kFloat32, .shape = Dims{-1, 10}, .offset = 40});
  EXPECT_EQ((rows.view<float, 2>()(0, 0)), 11);
  EXPECT_EQ(rows.shape(), Dims({99, 10}));
}

TEST_F(AFile, is_written_by_who_asked_for_that) {
  const MappedFile file = made("floats.npy");
  const Tensor reader = map_file(path("floats.npy"));
  const Tensor own = map_file(path("floats.npy"), in_mode(FileMode::kCopyOnWrite));
  const MappedFile again(path("floats.npy"), in_mode(FileMode::kReadWrite));
  EXPECT_EQ(code_of([&] { (void)reader.mutable_data(); }), Code::kInvalidArgument);
  own.as_mutable<float>()[0] = 70;
  again.tensor().mutable_view<float, 2>()(0, 1) = 80;
  again.flush();
  EXPECT_EQ(reader.as<float>()[0], 1);
  EXPECT_EQ(reader.as<float>()[1], 80);
  EXPECT_EQ(own.as<float>()[0], 70);
  EXPECT_EQ(code_of([&] { MappedFile(path("floats.npy")).flush(); }), Code::kInvalidArgument);
}

TEST_F(AFile, outlives_its_object_and_its_name) {
  Tensor tensor;
  {
    const MappedFile file = made("floats.npy");
    tensor = file.tensor();
  }
  ASSERT_EQ(::unlink(path("floats.npy").c_str()), 0);
  const Tensor copy = tensor;
  tensor = Tensor();
  EXPECT_TRUE(is_filled(copy.as<float>(), 1));
}

TEST_F(AFile, that_was_moved_from_is_closed) {
  MappedFile file = made("floats.npy");
  const MappedFile other = std::move(file);
  EXPECT_TRUE(is_filled(other.tensor().as<float>(), 1));
  EXPECT_EQ(code_of([&] { (void)file.tensor(); }), Code::kClosed);
  EXPECT_EQ(code_of([&] { file.check(); }), Code::kClosed);
}

TEST_F(AFile, that_is_cut_short_reads_as_zeros_and_is_not_to_be_trusted) {
  for (const FileMode mode : {FileMode::kRead, FileMode::kReadWrite, FileMode::kCopyOnWrite}) {
    (void)made("floats.npy");
    const MappedFile file(path("floats.npy"), in_mode(mode));
    const Tensor tensor = file.tensor();
    file.check();
    ASSERT_EQ(::truncate(path("floats.npy").c_str(), 4000), 0);
    EXPECT_EQ(tensor.as<float>()[999], 0);
    EXPECT_EQ(code_of([&] { file.check(); }), Code::kSystem);
  }
}

TEST_F(AFile, that_is_not_what_is_asked_for_is_refused) {
  (void)made("floats.bin");
  (void)made("floats.npy");
  write("short.npy", content("floats.npy").substr(0, 4000));
  write("no.npy", "no such thing");
  const auto refusal = [&](const std::string& name, const FileOptions& options) {
    return code_of([&] { (void)map_file(path(name), options); });
  };
  EXPECT_EQ(refusal("floats.bin", {}), Code::kInvalidArgument);
  EXPECT_EQ(refusal("floats.bin", {.dtype = DType::kFloat32, .shape = Dims{1001}}),
            Code::kInvalidArgument);
  EXPECT_EQ(refusal("floats.bin", {.dtype = DType::kFloat32, .shape = Dims{-1, 3}}),
            Code::kInvalidArgument);
  EXPECT_EQ(refusal("floats.npy", {.dtype = DType::kInt32}), Code::kInvalidArgument);
  EXPECT_EQ(refusal("floats.npy", {.shape = Dims{1000}}), Code::kInvalidArgument);
  EXPECT_EQ(refusal("short.npy", {}), Code::kInvalidArgument);
  EXPECT_EQ(refusal("no.npy", {}), Code::kInvalidArgument);
  EXPECT_EQ(refusal("none.npy", {}), Code::kSystem);
  EXPECT_EQ(refusal(std::string("a\0b", 3), kFloats), Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] { (void)map_file(path("floats.npy")).as<double>(); }),
            Code::kInvalidArgument);
}

TEST_F(AFile, of_safetensors_has_its_tensors_by_name) {
  write_safetensors(R"({"__metadata__":{"format":"pt"},"weight":)" + entry("U8", "[2,3]", 0, 6) +
                        R"(,"bias":)" + entry("I8", "[2]", 6, 8) + "}",
                    "abcdefgh");
  const MappedFile model(path("model.safetensors"));
  EXPECT_EQ(model.names(), (std::vector<std::string>{"weight", "bias"}));
  EXPECT_EQ(model.metadata(), (std::map<std::string, std::string>{{"format", "pt"}}));
  const Tensor weight = model.tensor("weight");
  EXPECT_EQ((weight.view<std::uint8_t, 2>()(1, 2)), 'f');
  EXPECT_EQ(model.tensor("bias").as<std::int8_t>()[1], 'h');
  EXPECT_EQ(model.tensor("bias").data() - weight.data(), 6) << "one mapping";
  EXPECT_EQ(code_of([&] { (void)model.tensor("nobody"); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] { (void)model.tensor(); }), Code::kInvalidArgument);
  EXPECT_TRUE(made("floats.bin").names().empty());
}

TEST_F(AFile, of_safetensors_with_a_hole_is_refused) {
  write_safetensors(R"({"t":)" + entry("U8", "[2]", 6, 8) + "}", "abcdefgh");
  EXPECT_EQ(code_of([&] { (void)MappedFile(path("model.safetensors")); }), Code::kInvalidArgument);
}

// Receives a tensor of a file, by a subscription and by a handle, and writes to the latter.
int use_a_file(const std::vector<std::string>& arguments) {
  const Participant participant({.domain = arguments.at(0)});
  Subscriber subscriber("floats", {}, participant);
  const auto sample = subscriber.receive(kLong);
  REQUIRE_IN_ROLE(sample && is_filled(sample->tensor("floats").as<float>(), 1));
  const Handle handle = Handle::parse(sample->fields().at("handle").as<std::string>());
  const Sample shared = attach(handle, {.access = Access::kShared, .timeout = kLong}, participant);
  shared.tensor().as_mutable<float>()[0] = 90;
  return 0;
}
const bool kUses = add_role("use_a_file", use_a_file);

TEST_F(AFile, goes_to_another_process_by_reference) {
  const Participant participant = folder.join();
  Publisher publisher("floats", {}, participant);
  Process other("use_a_file", {folder.path()});
  ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
  const Tensor floats = made("floats.npy").tensor();
  EXPECT_TRUE(is_shared(floats.data(), 4000, participant));
  const Shared shared = share({.tensors = {floats.view()}}, {.shared = true}, participant);
  EXPECT_EQ(participant.arena().used_bytes, 0U) << "nothing was copied to be shared";
  publisher.publish(
      Value::Map{{"floats", TensorIndex{0}}, {"handle", Value(shared.handle().text())}},
      {floats.view()});
  EXPECT_EQ(other.wait(), 0);
  EXPECT_EQ(publisher.stats().bytes_copied, 0U);
  EXPECT_EQ(map_file(path("floats.npy")).as<float>()[0], 90);
}

TEST_F(AFile, that_only_we_write_to_is_copied_for_others) {
  (void)made("floats.npy");
  const Tensor own = map_file(path("floats.npy"), in_mode(FileMode::kCopyOnWrite));
  own.as_mutable<float>()[0] = 70;
  const Participant participant = folder.join();
  const Shared shared = share({.tensors = {own.view()}}, {}, participant);
  const Sample attached = attach(shared.handle(), {.timeout = kLong}, folder.join());
  EXPECT_EQ(attached.tensor().as<float>()[0], 70);
  EXPECT_GT(participant.arena().used_bytes, 0U);
}

}  // namespace
}  // namespace tensorbus
