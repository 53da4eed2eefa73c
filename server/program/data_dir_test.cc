#include "server/program/data_dir.h"

#include <fstream>
#include <string>

#include "base/testing/scratch_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

using ::testing::HasSubstr;

TEST(DataDirTest, IsCreatedWhereItIsMissing) {
  const ScratchDir scratch;
  const auto dir = DataDir::Open(scratch.path() / "a" / "b");
  ASSERT_TRUE(dir.ok()) << dir.status();
  EXPECT_TRUE(std::filesystem::is_directory(dir->logs()));
}

TEST(DataDirTest, ASecondHolderIsRefusedAndToldWhoHoldsIt) {
  const ScratchDir scratch;
  const auto first = DataDir::Open(scratch.path());
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = DataDir::Open(scratch.path());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("is in use by process " + std::to_string(getpid())));
}

TEST(DataDirTest, IsFreeAgainOnceLetGo) {
  const ScratchDir scratch;
  { ASSERT_TRUE(DataDir::Open(scratch.path()).ok()); }
  EXPECT_TRUE(DataDir::Open(scratch.path()).ok());
}

// Expects that Open rejects a directory whose journal is missing or empty.
void ExpectRefused(const std::filesystem::path& path, const std::string& reason) {
  const absl::Status status = DataDir::Open(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr(path.string() + ": " + reason));
  EXPECT_THAT(std::string(status.message()), HasSubstr("restore the directory from a backup"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--accept-data-loss"));
  EXPECT_TRUE(DataDir::Open(path, /*accept_data_loss=*/true).ok());
}

TEST(DataDirTest, AJournalThatIsNoFileIsRefusedAndNothingElseIsBlamed) {
  const ScratchDir scratch;
  std::filesystem::create_directory(scratch.path() / "journal.sqlite");
  const absl::Status status = DataDir::Open(scratch.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("journal.sqlite is no file, as a journal is"));
  EXPECT_THAT(std::string(status.message()), ::testing::Not(HasSubstr("writable")));
}

TEST(DataDirTest, AWriteAheadLogWithoutItsJournalIsRefused) {
  const ScratchDir scratch;
  std::ofstream(scratch.path() / "journal.sqlite-wal") << "frames";
  ExpectRefused(scratch.path(), "journal.sqlite is missing, but journal.sqlite-wal is there");
  std::ofstream(scratch.path() / "journal.sqlite").flush();
  ExpectRefused(scratch.path(), "journal.sqlite is empty, but journal.sqlite-wal is there");
  std::ofstream(scratch.path() / "journal.sqlite") << "page";
  EXPECT_TRUE(DataDir::Open(scratch.path()).ok());
}

TEST(DataDirTest, LogsWithoutAJournalAreRefusedAndStay) {
  const ScratchDir scratch;
  for (const char* job : {"1", "2"})
    std::filesystem::create_directories(scratch.path() / "logs" / job);
  ExpectRefused(scratch.path(), "journal.sqlite is missing, but logs of 2 jobs are there");
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / "logs" / "2"));
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "journal.sqlite"));
}

TEST(DataDirTest, AMarkWithoutItsJournalIsRefused) {
  const ScratchDir scratch;
  std::ofstream(scratch.path() / "journal.sqlite-mark") << "mark";
  ExpectRefused(scratch.path(), "journal.sqlite is missing, but journal.sqlite-mark is there");
}

TEST(DataDirTest, LogsOfLostJobsAreMovedAsideAndNeverOverOthers) {
  const ScratchDir scratch;
  const auto dir = DataDir::Open(scratch.path());
  ASSERT_TRUE(dir.ok()) << dir.status();
  for (const char* job : {"7", "8"}) {
    std::filesystem::create_directories(dir->logs() / job / "1");
  }
  ASSERT_TRUE(dir->SetLogsAside({JobId(8)}).ok());
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / "lost-logs" / "8" / "1"));
  EXPECT_TRUE(std::filesystem::exists(dir->logs() / "7"));
  EXPECT_FALSE(std::filesystem::exists(dir->logs() / "8"));
  for (const char* generation : {"2", "3"}) {
    std::filesystem::create_directories(dir->logs() / "8" / generation);
    const absl::Status moved = dir->SetLogsAside({JobId(8)});
    EXPECT_TRUE(moved.ok()) << moved;
  }
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / "lost-logs" / "8" / "1"));
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / "lost-logs" / "8-2" / "2"));
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / "lost-logs" / "8-3" / "3"));
}

TEST(DataDirTest, APathThatIsNoDirectoryIsRefusedByName) {
  const ScratchDir scratch;
  const std::filesystem::path file = scratch.path() / "file";
  std::ofstream(file) << "x";
  const auto dir = DataDir::Open(file);
  EXPECT_EQ(dir.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(dir.status().message()), HasSubstr(file.string()));
}

}  // namespace
}  // namespace dp::server
