#include <sqlite3.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/journal/testing/sqlite_journal_fixture.h"

// Tests journals whose write-ahead log or mark is torn, cut, damaged or missing.

namespace dp::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(SqliteJournalTest, WhatWasAppendedSurvivesACrash) {
  AppendAndCrash(3);
  EXPECT_THAT(Replay().value(), ElementsAre(1, 2, 3));
}

TEST_F(SqliteJournalTest, ATornTailIsCutAndTold) {
  AppendAndCrash(3);
  FlipAByteOfTheWal(100);  // in its last page
  SetMark(2);              // the crash came before the answer
  ::testing::internal::CaptureStderr();
  EXPECT_THAT(Replay().value(), ElementsAre(1, 2));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr(absl::StrCat("event=journal_torn file=", wal())));
}

TEST_F(SqliteJournalTest, AWalThatIsWholeIsNotWorthAWord) {
  AppendAndCrash(3);
  ::testing::internal::CaptureStderr();
  EXPECT_THAT(Replay().value(), ElementsAre(1, 2, 3));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST_F(SqliteJournalTest, AWalThatEndsEarlyIsCutThere) {
  AppendAndCrash(3);
  std::filesystem::resize_file(wal(), std::filesystem::file_size(wal()) - 5000);
  SetMark(1);
  EXPECT_THAT(Replay().value(), ElementsAre(1));
}

TEST_F(SqliteJournalTest, AWalThatIsMissingIsRefusedWithWhatIsMissing) {
  AppendAndCrash(3);
  std::filesystem::remove(wal());
  ExpectRefusedAndUnchanged("3 acknowledged commands are missing (1 to 3): " + wal() +
                            " is missing");
}

TEST_F(SqliteJournalTest, AWalThatWasCutIsRefusedWithWhatIsMissing) {
  AppendAndCrash(8);
  std::filesystem::resize_file(wal(), std::filesystem::file_size(wal()) / 2);
  ExpectRefusedAndUnchanged("acknowledged commands are missing (");
  ExpectRefusedAndUnchanged(" to 8): " + wal() + " is older or was cut");
}

TEST_F(SqliteJournalTest, AnOlderWalIsRefusedWithWhatIsMissing) {
  AppendAndCrash(2);
  const std::string older = wal();
  file_ = (scratch_.path() / "journal.sqlite").string();
  Append({Cancel(3)});  // to the file that was copied
  std::filesystem::copy_file(older, wal());
  ExpectRefusedAndUnchanged("1 acknowledged commands are missing (3 to 3): " + wal() +
                            " is older or was cut");
}

TEST_F(SqliteJournalTest, ALossThatIsAcceptedIsLoggedAndTheNextStartNeedsNoFlag) {
  AppendAndCrash(3);
  std::filesystem::remove(wal());
  EXPECT_THAT(AcceptDataLoss(), HasSubstr("event=journal_data_loss_accepted"));
  EXPECT_THAT(Replay().value(), IsEmpty());
  Append({Cancel(4)});
  EXPECT_THAT(Replay().value(), ElementsAre(4));
  EXPECT_EQ(AcceptDataLoss(), "");  // nothing was lost this time
}

TEST_F(SqliteJournalTest, TheLossOfTheWholeFileIsAcceptedToo) {
  AppendAndCrash(3);
  std::filesystem::remove(file_);
  const std::string log = AcceptDataLoss();
  EXPECT_THAT(log, HasSubstr("event=journal_data_loss_accepted"));
  EXPECT_THAT(log, ::testing::Not(HasSubstr("nothing was changed")));
  EXPECT_THAT(Replay().value(), IsEmpty());
  Append({Cancel(4)});
  EXPECT_THAT(Replay().value(), ElementsAre(4));
}

TEST_F(SqliteJournalTest, AJournalIsKnownToHaveAMarkBeforeItsFirstCommand) {
  AppendAndCrash(3);
  std::filesystem::remove(wal());
  std::filesystem::remove(mark());
  ExpectRefusedAndUnchanged(mark() + " is missing");
}

TEST_F(SqliteJournalTest, OfADamagedWalTheAcceptedPartIsWhatComesBeforeTheDamage) {
  AppendAndCrash(3);
  FlipAByteOfTheWal(5000);  // in the page before the last
  EXPECT_THAT(AcceptDataLoss(), HasSubstr("event=journal_data_loss_accepted"));
  EXPECT_THAT(Replay().value(), ElementsAre(1));
}

TEST_F(SqliteJournalTest, AJournalWithoutAMarkOpensOnceAndGetsOne) {
  Append({Cancel(1), Cancel(2)});
  Tamper("DROP TABLE has_mark");
  std::filesystem::remove(mark());
  EXPECT_THAT(Replay().value(), ElementsAre(1, 2));
  EXPECT_EQ((*SqliteMark::Open(file_, nullptr, SqliteMark::Sync::kAtOnce))->sequence(), 2u);
  std::filesystem::remove(mark());
  ExpectRefusedAndUnchanged(mark() + " is missing");
  EXPECT_THAT(AcceptDataLoss(), HasSubstr("is missing"));
  EXPECT_THAT(Replay().value(), ElementsAre(1, 2));
}

TEST_F(SqliteJournalTest, AMarkThatIsDamagedIsRefused) {
  Append({Cancel(1)});
  std::fstream(mark(), std::ios::in | std::ios::out | std::ios::binary) << "dp journal mark\nx";
  ExpectRefusedAndUnchanged(mark() + " is damaged");
}

// Commands above the mark were not acknowledged: a crash may have torn them.
TEST_F(SqliteJournalTest, WhatTheMarkDoesNotKnowMayBeThereOrNot) {
  AppendAndCrash(3);
  SetMark(1);
  EXPECT_THAT(Replay().value(), ElementsAre(1, 2, 3));
}

// Bytes behind the last frame are no part of the WAL.
TEST_F(SqliteJournalTest, AWalOfMoreThanTwoGiBIsRead) {
  AppendAndCrash(3);
  std::filesystem::resize_file(wal(), uintmax_t{2200} << 20);
  EXPECT_THAT(Replay().value(), ElementsAre(1, 2, 3));
}

TEST_F(SqliteJournalTest, AWalThatIsDamagedBeforeItsEndIsRefused) {
  AppendAndCrash(3);
  FlipAByteOfTheWal(5000);  // in the page before the last
  ExpectRefused(absl::StatusCode::kDataLoss, "what was written after it had been synced follows");
}

TEST_F(SqliteJournalTest, AWalWithADamagedHeaderIsRefused) {
  AppendAndCrash(3);
  FlipAByteOfTheWal(static_cast<int64_t>(std::filesystem::file_size(wal())) - 13);
  ExpectRefused(absl::StatusCode::kDataLoss, "header");
}

TEST_F(SqliteJournalTest, AWalWhoseHeaderWasZeroedIsRefused) {
  AppendAndCrash(3);
  std::fstream(wal(), std::ios::in | std::ios::out | std::ios::binary) << std::string(32, '\0');
  ExpectRefused(absl::StatusCode::kDataLoss, "its header is gone");
}

TEST_F(SqliteJournalTest, AWalThatWasTornBeforeItsFirstFrameIsAsNone) {
  Append({Cancel(1)});
  for (const size_t bytes : {size_t{0}, size_t{20}, size_t{5000}}) {
    std::ofstream(wal(), std::ios::binary) << std::string(bytes, '\0');
    EXPECT_THAT(Replay().value(), ElementsAre(1)) << bytes;
  }
}

// A file system that cannot say whether a file exists.
TEST_F(SqliteJournalTest, AWalThatCannotBeLookedForIsAnError) {
  AppendAndCrash(1);
  sqlite3_vfs blind = *sqlite3_vfs_find(nullptr);
  blind.zName = "blind";
  blind.xAccess = [](sqlite3_vfs*, const char*, int, int*) { return SQLITE_IOERR_ACCESS; };
  ASSERT_EQ(sqlite3_vfs_register(&blind, /*makeDflt=*/0), SQLITE_OK);
  const absl::Status status = SqliteJournal::Open(file_, {.vfs = "blind"}).status();
  sqlite3_vfs_unregister(&blind);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("-wal cannot be read"));
}

}  // namespace
}  // namespace dp::server
