#include "server/logs/log_index.h"

#include <fstream>

#include "base/testing/scratch_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Entry = LogIndex::Entry;

class LogIndexTest : public ::testing::Test {
 protected:
  LogIndex Open(uint64_t stream_end = 1000) { return *LogIndex::Open(path_, stream_end); }

  const ScratchDir scratch_;
  const std::filesystem::path path_ = scratch_.path() / "0.stdout.times";
};

TEST_F(LogIndexTest, WhatWasAppendedIsFoundByBisectingInEveryLife) {
  LogIndex index = Open();
  for (uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(index.Append({{10 * i, 7 * i}}).ok());
  const LogIndex reopened = Open();
  EXPECT_EQ(reopened.size(), 100u);
  EXPECT_EQ(reopened.last(), (Entry{990, 693}));
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(reopened.CountBefore(10 * i).value(), i);
    EXPECT_EQ(reopened.CountBelow(7 * i + 1).value(), i + 1);
  }
  EXPECT_THAT(*reopened.Read(98, 10), ElementsAre(Entry{980, 686}, Entry{990, 693}));
}

TEST_F(LogIndexTest, NumbersOfAnySizeSurvive) {
  const Entry largest{UINT64_MAX - 1, UINT64_MAX};
  ASSERT_TRUE(Open().Append({{0, 0x0102030405060708}, largest}).ok());
  EXPECT_THAT(*Open(UINT64_MAX).Read(0, 2), ElementsAre(Entry{0, 0x0102030405060708}, largest));
}

TEST_F(LogIndexTest, WithoutAFileItIsEmpty) {
  const LogIndex index = Open();
  EXPECT_EQ(index.size(), 0u);
  EXPECT_EQ(index.CountBefore(5).value(), 0u);
  EXPECT_THAT(*index.Read(0, 1), IsEmpty());
}

TEST_F(LogIndexTest, EntriesBeyondTheStreamAreOfACrashAndForgottenForGood) {
  ASSERT_TRUE(Open().Append({{10, 1}, {20, 2}, {30, 3}}).ok());
  LogIndex index = Open(/*stream_end=*/20);
  EXPECT_EQ(index.size(), 1u);
  ASSERT_TRUE(index.Append({{25, 4}}).ok());
  EXPECT_THAT(*Open().Read(0, 9), ElementsAre(Entry{10, 1}, Entry{25, 4}));
}

TEST_F(LogIndexTest, EntriesThatAreNotKeptAreForgottenForGood) {
  LogIndex index = Open();
  ASSERT_TRUE(index.Append({{10, 1}, {20, 9}}).ok());
  ASSERT_TRUE(index.Keep(1).ok());
  EXPECT_EQ(index.last(), (Entry{10, 1}));
  ASSERT_TRUE(index.Append({{20, 2}}).ok());
  EXPECT_THAT(*Open().Read(0, 9), ElementsAre(Entry{10, 1}, Entry{20, 2}));
  ASSERT_TRUE(index.Keep(0).ok());
  EXPECT_EQ(index.last(), std::nullopt);
}

TEST_F(LogIndexTest, ATornEntryIsForgotten) {
  ASSERT_TRUE(Open().Append({{10, 1}}).ok());
  std::ofstream(path_, std::ios::app) << "torn";
  LogIndex index = Open();
  ASSERT_TRUE(index.Append({{20, 2}}).ok());
  EXPECT_THAT(*Open().Read(0, 9), ElementsAre(Entry{10, 1}, Entry{20, 2}));
}

}  // namespace
}  // namespace dp::server
