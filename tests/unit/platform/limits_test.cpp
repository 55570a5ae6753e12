#include "tensorbus/platform/limits.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <vector>

#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::platform {
namespace {

bool names(const std::optional<std::string>& text, const std::vector<std::string>& words) {
  if (!text) return false;
  bool all = true;
  for (const std::string& word : words) all &= text->find(word) != std::string::npos;
  if (!all) std::fprintf(stderr, "%s\n", text->c_str());
  return all;
}

TEST(LimitBehind, an_errno_has_a_name_a_value_and_a_remedy) {
  rlimit descriptors{};
  ::getrlimit(RLIMIT_NOFILE, &descriptors);
  EXPECT_TRUE(
      names(limit_behind(EMFILE),
            {"RLIMIT_NOFILE is " + std::to_string(descriptors.rlim_cur), "ulimit -n", "raise it"}));
  EXPECT_TRUE(names(limit_behind(ENFILE), {"fs.file-max is ", "raise it"}));
  EXPECT_TRUE(names(limit_behind(ENOMEM), {"memory.max", "raise the limit"}));
  EXPECT_TRUE(names(limit_behind(ENOMEM, During::kMapping),
                    {"RLIMIT_AS is ", "vm.max_map_count is ", "raise the limit"}));
  EXPECT_TRUE(names(limit_behind(ENOMEM, During::kPrivateMapping), {"RLIMIT_DATA is "}));
  EXPECT_TRUE(names(limit_behind(EAGAIN, During::kMapping), {"RLIMIT_MEMLOCK is "}));
  EXPECT_TRUE(names(limit_behind(EAGAIN, During::kThread),
                    {"RLIMIT_NPROC is ", "kernel.threads-max is ", "pids.max"}));
  EXPECT_TRUE(names(limit_behind(ENOSPC, During::kDirectory), {"full", "TENSORBUS_DOMAIN"}));
  EXPECT_TRUE(names(limit_behind(EDQUOT, During::kDirectory), {"quota", "TENSORBUS_DOMAIN"}));
  EXPECT_TRUE(names(limit_behind(EROFS, During::kDirectory), {"read-only", "TENSORBUS_DOMAIN"}));
}

TEST(LimitBehind, an_errno_that_tells_of_none_is_nothing) {
  EXPECT_FALSE(limit_behind(EINVAL));
  EXPECT_FALSE(limit_behind(EAGAIN));
  EXPECT_FALSE(limit_behind(EROFS));
}

TEST(LimitBehind, an_errno_decides_the_code) {
  const auto code = [](int error_number, During during) {
    return test::error_of([&] { throw_system("doing", error_number, during); });
  };
  EXPECT_EQ(code(EMFILE, During::kAnything), "OutOfMemory");
  EXPECT_EQ(code(ENOSPC, During::kDirectory), "OutOfMemory");
  EXPECT_EQ(code(EACCES, During::kDirectory), "Permission");
  EXPECT_EQ(code(EACCES, During::kAnything), "System");
}

TEST(NoMemory, is_an_error_like_any_other) {
  std::string message;
  EXPECT_EQ(test::error_of([] { with_memory_errors([] { throw std::bad_alloc(); }); }, &message),
            "OutOfMemory");
  EXPECT_NE(message.find("RLIMIT_AS"), std::string::npos) << message;
  EXPECT_EQ(with_memory_errors([] { return 7; }), 7);
}

}  // namespace
}  // namespace tensorbus::platform
