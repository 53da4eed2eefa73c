#include "server/program/limits_file.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

using ::testing::HasSubstr;

TEST(LimitsFileTest, NamesAndThoseWithoutALineOfTheirOwnHaveTheirLimits) {
  const auto limits = ParseLimits(
      "# who may hold what\n"
      "user *      slots=16 jobs=4 unfinished=0\n"
      "\tuser alice slots=32  # more\r\n"
      "\n"
      "queue batch jobs=0",
      "limits");
  ASSERT_TRUE(limits.ok()) << limits.status();
  EXPECT_EQ(limits->OfUser("bob"), (core::Limit{16, 4, 0}));
  EXPECT_EQ(limits->OfUser("alice"), (core::Limit{32, core::Limit().jobs}));
  EXPECT_EQ(limits->OfQueue("batch").jobs, 0);
  EXPECT_EQ(limits->OfQueue("other"), core::Limit());
}

TEST(LimitsFileTest, AMistakeIsNamedWithItsLine) {
  for (const char* bad : {"alice slots=1", "user", "user a slots", "user a slots=x",
                          "user a slots=-1", "user a gpus=1", "user b slots=1", "user a", "user *",
                          "queue Bad_Q slots=2", "queue a unfinished=2", "user a jobs=2 jobs=3"}) {
    const auto limits = ParseLimits(std::string("user b jobs=1\n") + bad, "/etc/limits");
    EXPECT_TRUE(absl::IsInvalidArgument(limits.status())) << bad;
    EXPECT_THAT(limits.status().message(), HasSubstr("/etc/limits:2: "));
  }
}

TEST(LimitsFileTest, AFileThatIsNotThereIsNamed) {
  EXPECT_THAT(ReadLimits("/no/such").status().message(), HasSubstr("--limits /no/such"));
}

}  // namespace
}  // namespace dp::server
