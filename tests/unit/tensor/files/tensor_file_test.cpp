#include "tensorbus/tensor/files/tensor_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::tensor {
namespace {

using test::error_of;

constexpr FileMode kModes[] = {FileMode::kRead, FileMode::kReadWrite, FileMode::kCopyOnWrite};

struct TensorFileTest : testing::Test {
  // What mapping it is refused with; "nothing thrown" if it is not.
  std::string refusal(const std::string& name, const FileOptions& options,
                      std::string* message = nullptr) const {
    return error_of([&] { const TensorFile file(folder / name, options); }, message);
  }
  std::string content(const std::string& name) const {
    std::ifstream file(folder / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  test::TemporaryDirectory folder;
  const FileOptions made{.mode = FileMode::kCreate, .dtype = DType::kInt32, .shape = Dims{1000, 3}};
};

TEST_F(TensorFileTest, is_made_with_all_its_blocks_and_zeros) {
  folder.write("raw", "old content");
  for (const char* name : {"raw", "made.npy"}) {
    const TensorFile file(folder / name, made);
    EXPECT_TRUE(file.writable());
    struct stat status{};
    ASSERT_EQ(::stat((folder / name).c_str(), &status), 0);
    EXPECT_EQ(static_cast<std::size_t>(status.st_size), file.contents().start + 12'000);
    EXPECT_GE(status.st_blocks * 512, 12'000);
    EXPECT_EQ(content(name).substr(file.contents().start), std::string(12'000, '\0'));
  }
}

TEST_F(TensorFileTest, shows_what_was_written_by_the_mode_that_it_was_mapped_with) {
  for (const char* name : {"raw", "made.npy"}) {
    const TensorFile writer(folder / name, made);
    writer.data(writer.place(nullptr))[5] = std::byte{7};
    for (const FileMode mode : kModes) {
      const TensorFile file(folder / name, {.mode = mode, .dtype = DType::kInt32});
      const FilePlace& place = file.place(nullptr);
      EXPECT_EQ(file.layout(place).elements(), 3000U);
      EXPECT_EQ(file.data(place)[5], std::byte{7});
      EXPECT_EQ(file.writable(), mode != FileMode::kRead);
    }
  }
}

TEST_F(TensorFileTest, that_may_not_be_made_leaves_what_is_there) {
  folder.write("raw", "content");
  folder.write("a.npy", "content");
  folder.write("a.safetensors", "content");
  FileOptions wrong = made;
  wrong.shape = Dims{-1};
  for (const char* name : {"raw", "a.npy", "a.safetensors"}) {
    EXPECT_EQ(refusal(name, wrong), "InvalidArgument");
    EXPECT_EQ(content(name), "content");
  }
  wrong.shape = Dims{3};
  wrong.offset = INT64_MAX - 5;
  EXPECT_EQ(refusal("raw", wrong), "InvalidArgument");
  EXPECT_EQ(content("raw"), "content");
  EXPECT_EQ(refusal("new.safetensors", made), "InvalidArgument");
  EXPECT_FALSE(std::filesystem::exists(folder / "new.safetensors"));
}

TEST_F(TensorFileTest, that_cannot_be_opened_is_named_with_the_reason) {
  std::string message;
  for (const char* name : {"none", "none.npy", "none.safetensors"}) {
    EXPECT_EQ(refusal(name, {}, &message), "System");
    EXPECT_EQ(message, "file '" + (folder / name) + "': opening it: No such file or directory");
  }
  EXPECT_EQ(refusal(".", {.mode = FileMode::kReadWrite, .dtype = DType::kInt8}, &message),
            "System");
  EXPECT_NE(message.find("Is a directory"), std::string::npos) << message;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(refusal("pipe", {.dtype = DType::kInt8}, &message), "InvalidArgument");
  EXPECT_NE(message.find("not a regular file"), std::string::npos) << message;
}

TEST_F(TensorFileTest, of_somebody_else_may_not_be_opened) {
  folder.write("secret", "content");
  std::filesystem::permissions(folder / "secret", std::filesystem::perms::none);
  test::Child somebody([&] {
    if (::geteuid() == 0 && ::setuid(65534) != 0) return false;  // root may open any file
    return refusal("secret", {.dtype = DType::kInt8}) == "Permission";
  });
  EXPECT_EQ(somebody.wait(), "exit 0");
}

TEST_F(TensorFileTest, says_itself_what_the_caller_must_not_say) {
  folder.write("a.npy", "");
  folder.write("a.safetensors", "");
  std::string message;
  for (const char* name : {"a.npy", "a.safetensors"}) {
    EXPECT_EQ(refusal(name, {.offset = 8}, &message), "InvalidArgument");
    EXPECT_NE(message.find("offset=8"), std::string::npos) << message;
  }
  EXPECT_EQ(refusal("a.safetensors", {.dtype = DType::kInt8}, &message), "InvalidArgument");
  EXPECT_NE(message.find("dtype=int8"), std::string::npos) << message;
  EXPECT_EQ(refusal("a.safetensors", {.shape = Dims{3}}, &message), "InvalidArgument");
  EXPECT_NE(message.find("shape=(3,)"), std::string::npos) << message;
}

TEST_F(TensorFileTest, has_one_tensor_or_several_with_names) {
  const TensorFile raw(folder / "raw", made);
  std::string message;
  EXPECT_EQ(error_of([&] { (void)raw.place("weight"); }, &message), "InvalidArgument");
  EXPECT_NE(message.find("'weight'; it has one tensor, without a name"), std::string::npos);
  const std::string header = R"({"six":{"dtype":"F6_E3M2","shape":[4],"data_offsets":[0,3]}})";
  folder.write("a.safetensors",
               static_cast<char>(header.size()) + std::string(7, '\0') + header + "123");
  const TensorFile named(folder / "a.safetensors", {});
  EXPECT_EQ(error_of([&] { (void)named.place(nullptr); }, &message), "InvalidArgument");
  EXPECT_NE(message.find("1 tensors: 'six'"), std::string::npos) << message;
  EXPECT_EQ(error_of([&] { (void)named.layout(named.place("six")); }, &message), "Unsupported");
  EXPECT_NE(message.find("F6_E3M2"), std::string::npos) << message;
  EXPECT_EQ(named.data(named.place("six")), nullptr);
}

TEST_F(TensorFileTest, of_no_elements_has_no_memory) {
  const TensorFile file(folder / "none.npy",
                        {.mode = FileMode::kCreate, .dtype = DType::kInt8, .shape = Dims{0}});
  EXPECT_EQ(file.data(file.place(nullptr)), nullptr);
}

}  // namespace
}  // namespace tensorbus::tensor
