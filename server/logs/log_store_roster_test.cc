// Tests where ranks ran, and whether all that they wrote has arrived.

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "server/logs/testing/log_store_fixture.h"

namespace dp::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using LogStoreRosterTest = LogStoreFixture;

const RankOutput kRank0{Generation(1), 0, "node1", "host-a", "/spool/7/1/0"};

std::vector<std::pair<int, uint64_t>> Outstanding(const LogPage& page) {
  std::vector<std::pair<int, uint64_t>> ranks;
  for (const OutstandingOutput& each : page.outstanding) {
    ranks.emplace_back(each.of.rank, each.stored_bytes);
  }
  return ranks;
}

TEST_F(LogStoreRosterTest, LinesOfEachGenerationHaveTheHostWhereTheirRankRanThen) {
  RankOutput moved = kRank0;
  moved.generation = Generation(2);
  moved.host = "host-b";
  ASSERT_TRUE(store_->Note(kJob, {kRank0, moved}).ok());
  Append(0, "one\n");
  Append(0, "two\n", Stream(0, Kind::kStdout, 2));
  Append(0, "three\n", Stream(1));
  Reopen();
  const LogPage page = Read();
  ASSERT_EQ(page.chunks.size(), 3u);
  EXPECT_EQ(page.chunks[0].host, "host-a");
  EXPECT_EQ(page.chunks[1].host, "");  // unknown, as in an older release
  EXPECT_EQ(page.chunks[2].host, "host-b");
}

TEST_F(LogStoreRosterTest, ARankWhoseOutputIsNotWholeIsOutstandingOnceTheQueryIsFinished) {
  ASSERT_TRUE(store_->Note(kJob, {kRank0}).ok());
  Append(0, "one\n");
  Append(0, "{}\n", Stream(0, Kind::kMetrics));
  EXPECT_THAT(Outstanding(Read()), IsEmpty());
  Reopen();
  const LogPage page = Read({.finished = true});
  EXPECT_THAT(Outstanding(page), ElementsAre(std::pair(0, 4)));
  EXPECT_EQ(page.outstanding.at(0).of.spool, kRank0.spool);
  EXPECT_EQ(page.outstanding.at(0).of.generation, Generation(1));
  RankOutput whole = kRank0;
  whole.whole = true;
  ASSERT_TRUE(store_->Note(kJob, {whole}).ok());
  EXPECT_THAT(Outstanding(Read({.finished = true})), IsEmpty());
  Reopen();
  EXPECT_THAT(Outstanding(Read({.finished = true})), IsEmpty());
}

TEST_F(LogStoreRosterTest, OnlyWhatAQueryAsksForIsOutstanding) {
  RankOutput later = kRank0, silent = kRank0;
  later.generation = Generation(2);
  later.rank = 1;
  silent.rank = 2;
  silent.spool = "";  // of a daemon that does not report the end
  ASSERT_TRUE(store_->Note(kJob, {kRank0, later, silent}).ok());
  EXPECT_THAT(Outstanding(Read({.finished = true, .without_lines = true})),
              ElementsAre(std::pair(0, 0), std::pair(1, 0)));
  EXPECT_THAT(Outstanding(Read({.ranks = {1}, .finished = true})), ElementsAre(std::pair(1, 0)));
  EXPECT_THAT(Outstanding(Read({.since_generation = Generation(2), .finished = true})),
              ElementsAre(std::pair(1, 0)));
  EXPECT_THAT(Outstanding(Read({.generation = Generation(1), .finished = true})),
              ElementsAre(std::pair(0, 0)));
}

TEST_F(LogStoreRosterTest, NoMoreThanSoManyRanksAreToldButAllAreCounted) {
  std::vector<RankOutput> ranks(kOutstandingMax + 1, kRank0);
  for (size_t rank = 0; rank < ranks.size(); ++rank) ranks[rank].rank = static_cast<int>(rank);
  ASSERT_TRUE(store_->Note(kJob, ranks).ok());
  const LogPage page = Read({.finished = true});
  EXPECT_EQ(page.outstanding.size(), kOutstandingMax);
  EXPECT_EQ(page.outstanding_ranks, kOutstandingMax + 1);
}

TEST_F(LogStoreRosterTest, WhatAppendsFindNoRoomForIsOutstandingAllTheSame) {
  Reopen({.disk_reserve = ~uint64_t{0}});
  ASSERT_TRUE(store_->Note(kJob, {kRank0}).ok());
  EXPECT_FALSE(store_->Append(kJob, {Stream(0), 0, "one\n"}).ok());
  EXPECT_THAT(Outstanding(Read({.finished = true})), ElementsAre(std::pair(0, 0)));
}

TEST_F(LogStoreRosterTest, ATornLineOfTheRosterIsForgottenAndWrittenOver) {
  RankOutput other = kRank0;
  other.rank = 1;
  ASSERT_TRUE(store_->Note(kJob, {kRank0, other}).ok());
  const auto file = scratch_.path() / "logs" / "7" / "1" / "ranks";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 3);
  Reopen();
  EXPECT_THAT(Outstanding(Read({.finished = true})), ElementsAre(std::pair(0, 0)));
  ASSERT_TRUE(store_->Note(kJob, {other}).ok());
  Reopen();
  EXPECT_THAT(Outstanding(Read({.finished = true})), ElementsAre(std::pair(0, 0), std::pair(1, 0)));
}

TEST_F(LogStoreRosterTest, ADroppedJobsRosterGoesWithItsLines) {
  ASSERT_TRUE(store_->Note(kJob, {kRank0}).ok());
  ASSERT_TRUE(store_->Drop(kJob).ok());
  EXPECT_THAT(Outstanding(Read({.finished = true})), IsEmpty());
  EXPECT_THAT(store_->Stored(), IsEmpty());
}

}  // namespace
}  // namespace dp::server
