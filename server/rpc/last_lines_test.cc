#include "server/rpc/last_lines.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

using Kind = LogStreamKey::Kind;
using ::testing::ElementsAre;

void Add(LogPage& page, Kind kind, const std::string& data, uint64_t generation = 1) {
  page.chunks.push_back({{Generation(generation), 0, kind}, 0, data});
}

TEST(LastLinesTest, StandardErrorComesLast) {
  LogPage page;
  Add(page, Kind::kStderr, "Traceback\nKeyError\n");
  Add(page, Kind::kStdout, "epoch 1\nepoch 2");
  EXPECT_THAT(LastLines(page, Generation(1)),
              ElementsAre("epoch 1", "epoch 2", "Traceback", "KeyError"));
}

TEST(LastLinesTest, ThereAreOnlySoManyAndTheLastAreKept) {
  LogPage page;
  for (size_t line = 0; line <= kLastLinesMax; ++line) {
    Add(page, Kind::kStdout, absl::StrCat(line, "\n"));
  }
  const std::vector<std::string> lines = LastLines(page, Generation(1));
  EXPECT_EQ(lines.size(), kLastLinesMax);
  EXPECT_EQ(lines.front(), "1");
}

TEST(LastLinesTest, AnEarlierGenerationIsNotTold) {
  LogPage page;
  Add(page, Kind::kStdout, "before\n", 1);
  Add(page, Kind::kStdout, "now\n", 2);
  EXPECT_THAT(LastLines(page, Generation(2)), ElementsAre("now"));
}

TEST(LastLinesTest, WhatIsNotUtf8BecomesAQuestionMarkAndLongLinesAreCut) {
  LogPage page;
  Add(page, Kind::kStdout, "\xff\xc3\xa4\n" + std::string(2 * kLastLineBytesMax, 'x'));
  const std::vector<std::string> lines = LastLines(page, Generation(1));
  EXPECT_EQ(lines.at(0), "?\xc3\xa4");
  EXPECT_EQ(lines.at(1).size(), kLastLineBytesMax);
}

}  // namespace
}  // namespace dp::server
