#include "server/shell/sqlite_journal.h"

#include <sqlite3.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/coordinator.h"
#include "server/shell/convert_command.h"
#include "server/shell/scratch_dir.h"
#include "server/shell/sqlite_checksum.h"

namespace dp::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

core::Command Cancel(uint64_t job) { return {absl::UnixEpoch(), core::CancelJob{JobId(job)}}; }

class SqliteJournalTest : public ::testing::Test {
 protected:
  // The jobs that the journal's commands cancel, or why it cannot be read.
  absl::StatusOr<std::vector<uint64_t>> Replay() {
    auto journal = SqliteJournal::Open(file_);
    if (!journal.ok()) return journal.status();
    std::vector<uint64_t> jobs;
    restored_.reset();
    const absl::Status status =
        (*journal)->Replay([this](core::State state) { restored_.emplace(std::move(state)); },
                           [&](const core::Command& command) {
                             jobs.push_back(std::get<core::CancelJob>(command.action).job.value());
                           });
    if (!status.ok()) return status;
    return jobs;
  }
  void Append(std::vector<core::Command> commands) {
    const auto journal = OpenReplayed();
    const absl::Status status = journal->Append(commands);
    ASSERT_TRUE(status.ok()) << status;
  }
  std::unique_ptr<SqliteJournal> OpenReplayed() {
    auto journal = SqliteJournal::Open(file_);
    EXPECT_TRUE(journal.ok()) << journal.status();
    const absl::Status replayed =
        (*journal)->Replay([](core::State) {}, [](const core::Command&) {});
    EXPECT_TRUE(replayed.ok()) << replayed;
    while ((*journal)->compacting()) EXPECT_TRUE((*journal)->Maintain().ok());
    return *std::move(journal);
  }
  // Takes a snapshot of a state with `jobs` jobs, and goes on for so many shares of the work; by
  // default to its end.
  void TakeSnapshot(int jobs, int shares = 1000) {
    const auto journal = OpenReplayed();
    journal->TakeSnapshot(StateOf(jobs).state());
    EXPECT_EQ(journal->tail().commands, 0u);
    while (journal->compacting() && shares-- > 0) {
      const absl::Status status = journal->Maintain();
      ASSERT_TRUE(status.ok()) << status;
    }
  }
  static core::Coordinator StateOf(int jobs) {
    core::Coordinator coordinator;
    coordinator.Apply({absl::UnixEpoch(), core::StartEpoch{}});
    for (int i = 0; i < jobs; ++i) {
      const std::string name = "job " + std::to_string(i);
      // Each fills a piece of the snapshot.
      const core::JobSpec spec{.name = name, .payload = std::string(300'000, 'x')};
      coordinator.Apply({absl::UnixEpoch(), core::SubmitJob{name, spec}});
    }
    return coordinator;
  }
  // Appends one command after the other, and leaves the files as kill -9 would.
  void AppendAndCrash(uint64_t commands) {
    const auto journal = OpenReplayed();
    for (uint64_t job = 1; job <= commands; ++job) ASSERT_TRUE(journal->Append({Cancel(job)}).ok());
    const std::string crashed = (scratch_.path() / "crashed.sqlite").string();
    for (const char* suffix : {"", "-wal", "-mark"}) {
      std::filesystem::copy_file(file_ + suffix, crashed + suffix);
    }
    file_ = crashed;
  }
  std::string wal() const { return file_ + "-wal"; }
  std::string mark() const { return file_ + "-mark"; }
  // As where fewer had been acknowledged.
  void SetMark(uint64_t sequence) {
    const auto mark = SqliteMark::Open(file_, nullptr, SqliteMark::Sync::kAtOnce);
    ASSERT_TRUE(mark.ok()) << mark.status();
    ASSERT_TRUE((*mark)->Create(sequence).ok());
  }
  // All files of the journal.
  std::map<std::string, std::string> Files() const {
    std::map<std::string, std::string> files;
    for (const std::string& file : {file_, wal(), mark()}) {
      std::ifstream in(file, std::ios::binary);
      std::string content{std::istreambuf_iterator<char>(in), {}};
      // SQLite makes a WAL of no bytes where there is none.
      if (!content.empty()) files[file] = std::move(content);
    }
    return files;
  }
  // What a start says that goes on without what is missing.
  std::string AcceptDataLoss() {
    ::testing::internal::CaptureStderr();
    const auto journal = SqliteJournal::Open(file_, {.accept_data_loss = true});
    EXPECT_TRUE(journal.ok()) << journal.status();
    const absl::Status replayed =
        (*journal)->Replay([](core::State) {}, [](const core::Command&) {});
    EXPECT_TRUE(replayed.ok()) << replayed;
    return ::testing::internal::GetCapturedStderr();
  }
  void ExpectRefusedAndUnchanged(const std::string& reason) {
    const auto files = Files();
    ExpectRefused(absl::StatusCode::kDataLoss, reason);
    ExpectRefused(absl::StatusCode::kDataLoss, "--accept-data-loss");
    EXPECT_TRUE(Files() == files) << "a refused start has changed the files";
  }
  // So far from the end of the WAL.
  void FlipAByteOfTheWal(int64_t from_end) {
    std::fstream file(wal(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-from_end, std::ios::end);
    const char byte = static_cast<char>(file.get());
    file.seekp(-from_end, std::ios::end);
    file.put(static_cast<char>(byte ^ 0x10));
  }
  int64_t Number(const std::string& sql) {
    sqlite3* database = nullptr;
    EXPECT_EQ(sqlite3_open(file_.c_str(), &database), SQLITE_OK);
    int64_t number = -1;
    const auto take = [](void* number, int, char** columns, char**) {
      *static_cast<int64_t*>(number) = std::stoll(columns[0]);
      return 0;
    };
    EXPECT_EQ(sqlite3_exec(database, sql.c_str(), take, &number, nullptr), SQLITE_OK);
    sqlite3_close(database);
    return number;
  }
  int64_t Count(const std::string& table) { return Number("SELECT count(*) FROM " + table); }
  // Changes the file behind the journal's back.
  void Tamper(const std::string& sql) {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(file_.c_str(), &database), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(database);
    sqlite3_close(database);
  }
  // As one of a later release, which gives its command another meaning.
  void RaiseVersionOfRecord2() {
    journal::JournalRecord record = ToRecord(Cancel(2));
    record.set_version(2);
    const std::string bytes = record.SerializeAsString();
    Tamper(absl::StrCat("UPDATE journal SET record = x'", absl::BytesToHexString(bytes),
                        "', checksum = ", Checksum("2", bytes), " WHERE sequence = 2"));
  }
  void ExpectRefused(absl::StatusCode code, const std::string& reason) {
    const absl::Status status = Replay().status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(reason));
    EXPECT_THAT(std::string(status.message()), HasSubstr(file_));
  }

  const ScratchDir scratch_;
  std::string file_ = (scratch_.path() / "journal.sqlite").string();
  std::optional<core::Coordinator> restored_;  // by the last Replay
};

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
  EXPECT_EQ(restored_->StateHash(), StateOf(3).StateHash());
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
  EXPECT_EQ(Count("snapshot_piece"), 3);  // one a job, and the rest
}

TEST_F(SqliteJournalTest, AnUnfinishedSnapshotIsAsIfItHadNeverBegun) {
  Append({Cancel(1)});
  TakeSnapshot(2);
  Append({Cancel(2)});
  TakeSnapshot(9, /*shares=*/5);
  EXPECT_THAT(Replay().value(), ElementsAre(2));
  EXPECT_EQ(restored_->jobs().size(), 2u);
  (void)OpenReplayed();  // tidies up
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
  Append({Cancel(3)});  // to the file that the copy was taken of
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
  EXPECT_EQ(AcceptDataLoss(), "");  // there was none
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

// Its tail is one that a crash has torn, and the mark knows nothing of it.
TEST_F(SqliteJournalTest, WhatTheMarkDoesNotKnowMayBeThereOrNot) {
  AppendAndCrash(3);
  SetMark(1);
  EXPECT_THAT(Replay().value(), ElementsAre(1, 2, 3));
}

// What follows its last frame is not of it.
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

// Of a file system that cannot say whether a file is there.
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

TEST_F(SqliteJournalTest, ASecondOpenerIsRefused) {
  const auto first = SqliteJournal::Open(file_);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(SqliteJournal::Open(file_).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace dp::server
