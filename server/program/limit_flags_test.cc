#include "server/program/limit_flags.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

using ::testing::HasSubstr;

struct Limits {
  KeyValueLimits store;
  CallerFlags callers;
  DiskFlags disk;
  std::string error;
};

Limits Parsed(const std::string& flag, const std::string& value) {
  Limits limits;
  CLI::App app;
  AddStoreLimits(app, limits.store);
  AddCallerLimits(app, limits.callers);
  AddDiskLimits(app, limits.disk);
  try {
    app.parse(std::vector<std::string>{absl::StrCat(flag, "=", value)});
  } catch (const CLI::ParseError& error) {
    limits.error = error.what();
  }
  return limits;
}

TEST(LimitFlagsTest, WhatIsInRangeIsTaken) {
  EXPECT_EQ(Parsed("--store-bytes-max", "5000000000").store.total_bytes, 5000000000u);
  EXPECT_EQ(Parsed("--store-keys-max", "1").store.keys, 1u);
  EXPECT_EQ(Parsed("--calls-per-second", "5").callers.calls_per_second, 5u);
  EXPECT_EQ(Parsed("--connections-per-host", "20000").callers.connections_per_host, 20'000u);
  EXPECT_EQ(Parsed("--logs-bytes-max", "2MiB").disk.logs_bytes_max, uint64_t{2} << 20);
  EXPECT_EQ(Parsed("--job-logs-bytes-max", "1048576").disk.job_logs_bytes_max, uint64_t{1} << 20);
  EXPECT_EQ(Parsed("--parameters-bytes-max", "3MiB").disk.parameters_bytes_max, uint64_t{3} << 20);
  EXPECT_EQ(Parsed("--log-disk-reserve", "0").disk.log_disk_reserve, 0u);
}

TEST(LimitFlagsTest, ACountThatIsNoneIsRefusedWithTheRange) {
  for (const std::string value : {"-1", "0", "many", "1.5", "99999999999999999999999"}) {
    EXPECT_THAT(Parsed("--store-bytes-max", value).error,
                HasSubstr(value + " is no whole number from 1 to 1099511627776"));
    EXPECT_THAT(Parsed("--store-key-bytes-max", value).error,
                HasSubstr(value + " is no whole number from 1 to 1048576"));
    EXPECT_THAT(Parsed("--connections-per-host", value).error,
                HasSubstr(value + " is no whole number from 1 to 1073741824"));
  }
}

TEST(LimitFlagsTest, ASizeThatIsNoneOrTooSmallIsRefused) {
  for (const std::string flag : {"--logs-bytes-max", "--job-logs-bytes-max"}) {
    for (const std::string value : {"-1", "5", "1023KiB", "9999999TiB", "99999999999999999999999"})
      EXPECT_THAT(Parsed(flag, value).error,
                  HasSubstr(value + " is no number of bytes from 1MiB to 1PiB"));
  }
  EXPECT_THAT(Parsed("--log-disk-reserve", "-1").error,
              HasSubstr("-1 is no number of bytes from 0 to 1PiB"));
}

TEST(LimitFlagsTest, TheHelpTellsWhatASizeIsAndNotHowItIsRead) {
  CLI::App app;
  uint64_t memory_max = uint64_t{1} << 30;
  AddMemoryLimit(app, memory_max);
  EXPECT_THAT(app.help(), HasSubstr("--memory-max BYTES=1GiB  "));
}

TEST(LimitFlagsTest, AFlagThatIsNotGivenFollowsFromTheSizeOfTheDisk) {
  constexpr uint64_t kGiB = uint64_t{1} << 30;
  const DiskFlags given = Parsed("--logs-bytes-max", "2GiB").disk;
  EXPECT_EQ(given.LogsOn(SharesOf(10 * kGiB)).bytes_max, 2 * kGiB);
  EXPECT_EQ(DiskFlags().LogsOn(SharesOf(10 * kGiB)).bytes_max, 5 * kGiB);
  EXPECT_EQ(Parsed("--disk-reserve", "0").disk.JournalOn(SharesOf(kGiB)).submit_reserve, 0u);
}

}  // namespace
}  // namespace dp::server
