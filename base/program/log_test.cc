#include "base/program/log.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

std::string Logged(absl::string_view value) {
  CaptureStderr();
  Log(Severity::kWarning, "worker_lost", {{"worker", value}});
  return GetCapturedStderr();
}

TEST(LogTest, ALineHasSeverityEventAndFields) {
  EXPECT_THAT(Logged("w1"), EndsWith("Z warning event=worker_lost worker=w1\n"));
}

TEST(LogTest, WhatIsNoPlainWordIsQuotedAndEscaped) {
  EXPECT_THAT(Logged("a b"), EndsWith("worker=\"a b\"\n"));
  EXPECT_THAT(Logged("a\r\nb=\x1b"), EndsWith("worker=\"a\\r\\nb=\\033\"\n"));
  EXPECT_THAT(Logged(""), EndsWith("worker=\"\"\n"));
  EXPECT_THAT(Logged("it's \\'"), EndsWith("worker=\"it's \\\\'\"\n"));
}

TEST(LogTest, ALongValueIsCut) {
  const std::string line = Logged(std::string(100'000, 'x'));
  EXPECT_THAT(line, HasSubstr("x...\""));
  EXPECT_LT(line.size(), 5'000);
}

}  // namespace
}  // namespace dp
