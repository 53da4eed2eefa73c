#include "worker/agent/spool/log_spool.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/processes/exit_record.h"
#include "worker/agent/testing/fifo.h"

namespace dp::worker {
namespace {

const absl::Time kSpoolJobAt = absl::FromUnixSeconds(100);

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class LogSpoolTest : public testing::Test {
 protected:
  LogSpoolTest() { EXPECT_TRUE(spool_.Create({kSpoolJobAt}).ok()); }
  void Write(v1::LogStream stream, const std::string& text) {
    std::ofstream(spool_.path(stream), std::ios::app) << text;
  }

  TemporaryDirectory directory_;
  LogSpool spool_{directory_.path(), {JobId(7), Generation(2), 3}};
};

TEST_F(LogSpoolTest, FilesAreNamedAfterJobGenerationAndRank) {
  EXPECT_EQ(spool_.path(v1::LOG_STREAM_STDERR), directory_.path() + "/spool/7/2/3.err");
}

TEST_F(LogSpoolTest, LastLinesAreThoseOfStandardErrorAfterThoseOfStandardOutput) {
  Write(v1::LOG_STREAM_STDOUT, "step 1\nstep 2\n");
  Write(v1::LOG_STREAM_STDERR, "out of memory\n");
  EXPECT_THAT(spool_.LastLines(), ElementsAre("step 1", "step 2", "out of memory"));
}

TEST_F(LogSpoolTest, StandardErrorGoesBeforeStandardOutputWhereThereIsNoRoomForBoth) {
  Write(v1::LOG_STREAM_STDOUT, "step 1\n");
  for (int i = 1; i <= 30; ++i) Write(v1::LOG_STREAM_STDERR, absl::StrCat("error ", i, "\n"));
  EXPECT_THAT(spool_.LastLines(), SizeIs(kLastLinesMax));
  EXPECT_EQ(spool_.LastLines().front(), "error 11");
}

TEST_F(LogSpoolTest, AHoleInFrontIsNoPartOfALine) {
  Write(v1::LOG_STREAM_STDERR, std::string(2000, '\0') + "why\n");
  EXPECT_THAT(spool_.LastLines(), ElementsAre("why"));
}

TEST_F(LogSpoolTest, AHugeLineIsCut) {
  Write(v1::LOG_STREAM_STDERR, std::string(1 << 20, 'x'));
  EXPECT_THAT(spool_.LastLines(), ElementsAre(SizeIs(kLastLineBytesMax)));
}

TEST_F(LogSpoolTest, LinesAreAppendedBehindThoseOfTheRank) {
  Write(v1::LOG_STREAM_METRICS, "step 1\n");
  EXPECT_EQ(spool_.Append(v1::LOG_STREAM_METRICS, "gpu 40\n"), absl::OkStatus());
  std::ifstream file(spool_.path(v1::LOG_STREAM_METRICS));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "step 1\ngpu 40\n");
}

TEST_F(LogSpoolTest, AFileThatCannotBeAppendedToIsNamedWithTheReason) {
  spool_.Remove();
  const absl::Status status = spool_.Append(v1::LOG_STREAM_METRICS, "gpu 40\n");
  EXPECT_THAT(std::string(status.message()), HasSubstr("/spool/7/2/3.metrics: No such file"));
}

TEST_F(LogSpoolTest, RemovingTheLastRankRemovesItsDirectories) {
  spool_.Remove();
  EXPECT_FALSE(std::filesystem::exists(directory_.path() + "/spool/7"));
}

TEST_F(LogSpoolTest, RemovingARankLeavesTheOthers) {
  const LogSpool other(directory_.path(), {JobId(7), Generation(2), 4});
  ASSERT_TRUE(other.Create({kSpoolJobAt}).ok());
  spool_.Remove();
  EXPECT_TRUE(std::filesystem::exists(other.path(v1::LOG_STREAM_STDOUT)));
}

TEST_F(LogSpoolTest, TheNextLifeOfTheDaemonFindsWhatThereIs) {
  std::ofstream(directory_.path() + "/spool/7/2/notes.job") << "x";
  EXPECT_THAT(LogSpool::Find(directory_.path()), ElementsAre(RankKey{JobId(7), Generation(2), 3}));
  EXPECT_EQ(spool_.job_submitted_at(), kSpoolJobAt);
  spool_.Remove();
  EXPECT_EQ(spool_.job_submitted_at(), std::nullopt);
  EXPECT_THAT(LogSpool::Find(directory_.path()), testing::IsEmpty());
}

TEST_F(LogSpoolTest, ItKnowsWhoseItIs) {
  const SpoolOwner owner{kSpoolJobAt, {5, Incarnation(~uint64_t{0})}};
  ASSERT_TRUE(spool_.Create(owner).ok());
  EXPECT_EQ(spool_.owner(), owner);
}

TEST_F(LogSpoolTest, ASpoolOfAnEarlierReleaseDoesNotSayWhichDaemonMadeIt) {
  std::ofstream(directory_.path() + "/spool/7/2/3.job") << absl::ToUnixNanos(kSpoolJobAt);
  EXPECT_EQ(spool_.owner(), (SpoolOwner{kSpoolJobAt}));
  EXPECT_EQ(spool_.job_submitted_at(), kSpoolJobAt);
}

TEST_F(LogSpoolTest, TheRecordOfTheExitGoesWithTheSpoolAndIsOfThisRank) {
  WriteExitRecord(spool_.exit_file(), {});
  ASSERT_TRUE(spool_.Create({kSpoolJobAt}).ok());
  EXPECT_EQ(ReadExitRecord(spool_.exit_file()), std::nullopt);
  WriteExitRecord(spool_.exit_file(), {});
  spool_.Remove();
  EXPECT_FALSE(std::filesystem::exists(directory_.path() + "/spool/7"));
}

TEST_F(LogSpoolTest, MakingItAgainLeavesTheOldFilesToWhoReadsThem) {
  Write(v1::LOG_STREAM_STDOUT, "old\n");
  std::ifstream reader(spool_.path(v1::LOG_STREAM_STDOUT));
  ASSERT_TRUE(spool_.Create({kSpoolJobAt}).ok());
  std::string line;
  EXPECT_TRUE(std::getline(reader, line));
  EXPECT_THAT(spool_.LastLines(), testing::IsEmpty());
}

TEST_F(LogSpoolTest, ADirectoryThatCannotBeMadeIsNamed) {
  std::ofstream(directory_.path() + "/file").close();
  const LogSpool spool(directory_.path() + "/file", {JobId(1), Generation(1), 0});
  EXPECT_THAT(std::string(spool.Create({kSpoolJobAt}).message()), HasSubstr("/file/spool/1/1"));
}

}  // namespace
}  // namespace dp::worker
