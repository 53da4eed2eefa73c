#include "client/dpctl/run/line_rules.h"

#include <filesystem>
#include <fstream>

#include "client/dpctl/run/line_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::ctl {
namespace {

using ::testing::HasSubstr;

LogLine Line(int rank, v1::LogStream stream) {
  return {.generation = 1, .rank = rank, .stream = stream, .text = "text"};
}
LogLine Out(int rank) { return Line(rank, v1::LOG_STREAM_STDOUT); }
LogLine Err(int rank) { return Line(rank, v1::LOG_STREAM_STDERR); }

RankStreams Streams(const std::string& text) { return *RankStreams::Parse("-r", text); }

TEST(RankStreamsTest, ANumberIsOfAllRanksAndAMapOfThoseItNames) {
  EXPECT_TRUE(Streams("1").Has(5, v1::LOG_STREAM_STDOUT));
  EXPECT_FALSE(Streams("1").Has(5, v1::LOG_STREAM_STDERR));
  const RankStreams some = Streams("0:2,1:3");
  EXPECT_FALSE(some.Has(0, v1::LOG_STREAM_STDOUT));
  EXPECT_TRUE(some.Has(0, v1::LOG_STREAM_STDERR));
  EXPECT_TRUE(some.Has(1, v1::LOG_STREAM_STDOUT));
  EXPECT_FALSE(some.Has(2, v1::LOG_STREAM_STDOUT));
  EXPECT_TRUE(Streams("0").empty());
}

TEST(RankStreamsTest, AnythingElseIsNamed) {
  for (const char* wrong : {"4", "-1", "0:4", "0:", "a", "0:1,", "1:1:1"})
    EXPECT_THAT(std::string(RankStreams::Parse("--tee", wrong).status().message()),
                HasSubstr("--tee is \""))
        << wrong;
}

TEST(LineRulesTest, WhatIsRedirectedIsShownOnlyWhereItIsTeed) {
  const LineRules rules{.redirects = Streams("3"), .tee = Streams("1:1")};
  EXPECT_FALSE(rules.Shows(Out(0), 0));
  EXPECT_TRUE(rules.Shows(Out(1), 1));
  EXPECT_TRUE(rules.Shows(Out(3), 1));
  EXPECT_FALSE(rules.Shows(Err(1), 1));
  EXPECT_TRUE(rules.Files(Out(0), 0));
  EXPECT_FALSE(LineRules().Files(Out(0), 0));
  EXPECT_TRUE(LineRules().Shows(Out(0), 0));
}

TEST(LineRulesTest, AFilterShowsTheLocalRanksThatItNames) {
  const LineRules rules{.ranks_shown = {0}};
  EXPECT_TRUE(rules.Shows(Err(2), 0));
  EXPECT_FALSE(rules.Shows(Err(3), 1));
}

TEST(LineRulesTest, APrefixIsATemplate) {
  const LineRules rules{.prefix = "${hostname}:${rank} [${role_name}${local_rank}]:", .role = "a"};
  EXPECT_EQ(rules.Prefix(Out(3), 1, "node-b"), "node-b:3 [a1]:");
}

TEST(LineFilesTest, TheyLieAsTorchrunsDo) {
  const std::string dir = ::testing::TempDir() + "line_files_test";
  std::filesystem::remove_all(dir);
  {
    LineFiles files(dir);
    for (int rank = 0; rank < 300; ++rank) EXPECT_TRUE(files.Add(Out(rank)).ok());
    EXPECT_TRUE(files.Add(Out(0)).ok());  // its file was closed meanwhile
  }
  std::ifstream file(dir + "/attempt_0/0/stdout.log");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "text\ntext\n");
  std::filesystem::remove_all(dir);
}

TEST(LineFilesTest, AFileThatCannotBeWrittenIsNamed) {
  EXPECT_THAT(
      std::string(LineFiles("/dev/null/logs").Add(Err(7)).message()),
      HasSubstr("/dev/null/logs/attempt_0/7/stderr.log cannot be written: Not a directory"));
}

}  // namespace
}  // namespace dp::ctl
