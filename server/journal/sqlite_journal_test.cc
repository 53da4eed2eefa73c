#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/journal/testing/sqlite_journal_fixture.h"

namespace dp::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(SqliteJournalTest, TheBacklogIsWhatTheWriteAheadLogStillHasToMove) {
  const auto journal = OpenReplayed();
  EXPECT_EQ(journal->backlog_bytes(), 0u);
  core::SubmitJob submit{"large", {.name = "large", .payload = std::string(1 << 20, 'x')}};
  ASSERT_TRUE(journal->Append({{absl::UnixEpoch(), submit}}).ok());
  EXPECT_GT(journal->backlog_bytes(), uint64_t{1} << 20);
  for (int more = 0; more < 4; ++more) {
    ASSERT_TRUE(journal->Append({{absl::UnixEpoch(), submit}}).ok());
  }
  ASSERT_TRUE(journal->Maintain().ok());  // past 1,000 pages
  EXPECT_EQ(journal->backlog_bytes(), 0u);
  journal->TakeSnapshot(StateOf(3).state());
  EXPECT_GT(journal->backlog_bytes(), 900'000u);
  while (journal->compacting()) ASSERT_TRUE(journal->Maintain().ok());
  EXPECT_LT(journal->backlog_bytes(), uint64_t{4} << 20);
}

TEST_F(SqliteJournalTest, StartsEmpty) {
  const auto jobs = Replay();
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  EXPECT_THAT(*jobs, IsEmpty());
}

TEST_F(SqliteJournalTest, CommandsComeBackInOrder) {
  Append({Cancel(1), Cancel(2)});
  Append({Cancel(3)});
  EXPECT_THAT(Replay().value(), ElementsAre(1, 2, 3));
}

TEST_F(SqliteJournalTest, AFileThatIsNoDatabaseIsRefused) {
  std::ofstream(file_) << std::string(4096, 'x');
  ExpectRefused(absl::StatusCode::kDataLoss, "not a database");
}

TEST_F(SqliteJournalTest, AnotherProgramsDatabaseIsRefused) {
  Tamper("CREATE TABLE theirs (x)");
  ExpectRefused(absl::StatusCode::kDataLoss, "another program");
}

TEST_F(SqliteJournalTest, ALaterFormatIsRefused) {
  Append({Cancel(1)});
  Tamper("PRAGMA user_version = 5");
  ExpectRefused(absl::StatusCode::kFailedPrecondition, "has format 5");
}

TEST_F(SqliteJournalTest, ALaterVersionOfACommandIsRefusedByItsRecord) {
  Append({Cancel(1), Cancel(2)});
  RaiseVersionOfRecord2();
  ExpectRefused(
      absl::StatusCode::kFailedPrecondition,
      "record 2: cancel_job has version 2, this release knows up to 1; start the release");
}

TEST_F(SqliteJournalTest, AJournalThatIsRefusedStaysOneOfTheReleaseThatWroteIt) {
  Append({Cancel(1), Cancel(2)});
  Tamper("PRAGMA user_version = 3");
  RaiseVersionOfRecord2();
  EXPECT_FALSE(Replay().ok());
  EXPECT_EQ(Number("PRAGMA user_version"), 3);
}

TEST_F(SqliteJournalTest, AJournalOfAnEarlierFormatIsOneOfThisOnceItIsWrittenTo) {
  Append({Cancel(1)});
  Tamper("PRAGMA user_version = 3");
  EXPECT_THAT(Replay().value(), ElementsAre(1));
  EXPECT_EQ(Number("PRAGMA user_version"), 3);
  Append({Cancel(2)});
  EXPECT_EQ(Number("PRAGMA user_version"), SqliteJournal::kFormatVersion);
}

TEST_F(SqliteJournalTest, ADamagedRecordIsRefusedByItsNumber) {
  Append({Cancel(1), Cancel(2)});
  Tamper("UPDATE journal SET record = x'00' WHERE sequence = 2");
  ExpectRefused(absl::StatusCode::kDataLoss, "record 2 does not match its checksum");
}

TEST_F(SqliteJournalTest, RecordsThatChangedPlacesAreRefused) {
  Append({Cancel(1), Cancel(2)});
  Tamper(
      "UPDATE journal SET sequence = 9 WHERE sequence = 1;"
      "UPDATE journal SET sequence = 1 WHERE sequence = 2;"
      "UPDATE journal SET sequence = 2 WHERE sequence = 9");
  ExpectRefused(absl::StatusCode::kDataLoss, "record 1 does not match its checksum");
}

TEST_F(SqliteJournalTest, AMissingRecordIsRefusedByItsNumber) {
  Append({Cancel(1), Cancel(2), Cancel(3)});
  Tamper("DELETE FROM journal WHERE sequence = 2");
  ExpectRefused(absl::StatusCode::kDataLoss, "record 2 is missing");
}

TEST_F(SqliteJournalTest, ATruncatedFileIsRefused) {
  Append(std::vector<core::Command>(300, Cancel(1)));  // its last page holds some of them
  std::filesystem::resize_file(file_, std::filesystem::file_size(file_) - 1000);
  EXPECT_EQ(Replay().status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(SqliteJournalTest, AJournalOfTheFormatBeforeOpens) {
  Append({Cancel(1)});
  Tamper("DROP TABLE snapshot; DROP TABLE snapshot_piece; PRAGMA user_version = 1");
  EXPECT_THAT(Replay().value(), ElementsAre(1));
  TakeSnapshot(1);
  EXPECT_THAT(Replay().value(), IsEmpty());
}

TEST_F(SqliteJournalTest, ASnapshotReplacesTheCommandsBeforeIt) {
  Append({Cancel(1), Cancel(2)});
  TakeSnapshot(3);
  Append({Cancel(3)});
  EXPECT_THAT(Replay().value(), ElementsAre(3));
  EXPECT_EQ(restored_->StateDigest(), StateOf(3).StateDigest());
  EXPECT_EQ(Count("journal"), 1);
}

TEST_F(SqliteJournalTest, TheNextSnapshotReplacesTheOneBefore) {
  Append({Cancel(1)});
  TakeSnapshot(3);
  Append({Cancel(2)});
  TakeSnapshot(2);
  EXPECT_THAT(Replay().value(), IsEmpty());
  EXPECT_EQ(restored_->jobs().size(), 2u);
  EXPECT_EQ(Count("snapshot"), 1);
  EXPECT_EQ(Count("snapshot_piece"), 3);  // one per job, and the rest
}

TEST_F(SqliteJournalTest, AnUnfinishedSnapshotIsAsIfItHadNeverBegun) {
  Append({Cancel(1)});
  TakeSnapshot(2);
  Append({Cancel(2)});
  TakeSnapshot(9, /*shares=*/5);
  EXPECT_THAT(Replay().value(), ElementsAre(2));
  EXPECT_EQ(restored_->jobs().size(), 2u);
  (void)OpenReplayed();  // drops the unfinished snapshot
  EXPECT_EQ(Count("snapshot_piece"), 3);
}

TEST_F(SqliteJournalTest, CommandsAreAddedWhileASnapshotIsWritten) {
  Append({Cancel(1)});
  const auto journal = OpenReplayed();
  journal->TakeSnapshot(StateOf(3).state());
  for (uint64_t job = 2; journal->compacting(); ++job) {
    ASSERT_TRUE(journal->Append({Cancel(job)}).ok());
    ASSERT_TRUE(journal->Maintain().ok());
  }
  EXPECT_GT(journal->tail().commands, 3u);
}

TEST_F(SqliteJournalTest, ADamagedPieceOfASnapshotIsRefusedByItsNumber) {
  Append({Cancel(1)});
  TakeSnapshot(2);
  Tamper("UPDATE snapshot_piece SET record = x'00' WHERE piece = 1");
  ExpectRefused(absl::StatusCode::kDataLoss, "snapshot 1 piece 1 does not match its checksum");
}

TEST(ChecksumTest, AnEmptyRecordHasOneWhereverItLies) {
  EXPECT_EQ(Checksum("snapshot 1 piece 4", absl::string_view()),
            Checksum("snapshot 1 piece 4", ""));
  EXPECT_NE(Checksum("snapshot 1 piece 4", ""), Checksum("snapshot 1 piece 5", ""));
}

TEST_F(SqliteJournalTest, AnEmptyPieceIsNoDamage) {
  Append({Cancel(1)});
  TakeSnapshot(2);
  const std::string name = "snapshot 1 piece 1";
  Tamper(absl::StrCat("UPDATE snapshot_piece SET record = x'', checksum = ", Checksum(name, ""),
                      " WHERE piece = 1"));
  EXPECT_TRUE(Replay().ok());
}

TEST_F(SqliteJournalTest, AMissingPieceOfASnapshotIsRefusedByItsNumber) {
  Append({Cancel(1)});
  TakeSnapshot(2);
  Tamper("DELETE FROM snapshot_piece WHERE piece = 2");
  ExpectRefused(absl::StatusCode::kDataLoss, "snapshot 1 piece 2 is missing");
}

TEST_F(SqliteJournalTest, AMissingSnapshotIsNotedByTheCommandsThatItReplaced) {
  Append({Cancel(1)});
  TakeSnapshot(1);
  Append({Cancel(2)});
  Tamper("DELETE FROM snapshot");
  ExpectRefused(absl::StatusCode::kDataLoss, "record 1 is missing");
}

TEST_F(SqliteJournalTest, ASecondOpenerIsRefused) {
  const auto first = SqliteJournal::Open(file_);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(SqliteJournal::Open(file_).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace dp::server
