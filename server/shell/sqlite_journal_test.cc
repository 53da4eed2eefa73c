#include "server/shell/sqlite_journal.h"

#include <sqlite3.h>

#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/shell/scratch_dir.h"

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
    const absl::Status status = (*journal)->Replay([&](const core::Command& command) {
      jobs.push_back(std::get<core::CancelJob>(command.action).job.value());
    });
    if (!status.ok()) return status;
    return jobs;
  }
  void Append(std::vector<core::Command> commands) {
    auto journal = SqliteJournal::Open(file_);
    ASSERT_TRUE(journal.ok()) << journal.status();
    ASSERT_TRUE((*journal)->Replay([](const core::Command&) {}).ok());
    const absl::Status status = (*journal)->Append(commands);
    ASSERT_TRUE(status.ok()) << status;
  }
  // Changes the file behind the journal's back.
  void Tamper(const std::string& sql) {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(file_.c_str(), &database), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(database);
    sqlite3_close(database);
  }
  void ExpectRefused(absl::StatusCode code, const std::string& reason) {
    const absl::Status status = Replay().status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(reason));
    EXPECT_THAT(std::string(status.message()), HasSubstr(file_));
  }

  const ScratchDir scratch_;
  const std::string file_ = (scratch_.path() / "journal.sqlite").string();
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
  Tamper("PRAGMA user_version = 2");
  ExpectRefused(absl::StatusCode::kFailedPrecondition, "has format 2");
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
  Append({Cancel(1)});
  std::filesystem::resize_file(file_, std::filesystem::file_size(file_) - 1000);
  EXPECT_EQ(Replay().status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(SqliteJournalTest, ASecondOpenerIsRefused) {
  const auto first = SqliteJournal::Open(file_);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(SqliteJournal::Open(file_).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace dp::server
