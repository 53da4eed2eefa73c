#include "server/program/data_dir.h"

#include <sys/stat.h>
#include <unistd.h>

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
  EXPECT_TRUE(DataDir::Open(path, {.data_loss = true}).ok());
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

// Expects that Open refuses the directory because of `part`, and changes nothing, unless other
// users are accepted.
void ExpectRefusedFor(const std::filesystem::path& part, const std::filesystem::path& path) {
  const absl::Status status = DataDir::Open(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("data directory " + path.string() + " is not used: " + part.string()));
  EXPECT_THAT(std::string(status.message()), HasSubstr("a directory of your own with --data-dir"));
  EXPECT_FALSE(std::filesystem::exists(path / "lock"));
  EXPECT_TRUE(DataDir::Open(path, {.other_users = true}).ok());
}

TEST(DataDirTest, ADirectoryThatOthersCanWriteIsRefused) {
  const ScratchDir scratch;
  const std::filesystem::path path = scratch.path() / "dp";
  std::filesystem::create_directory(path);
  for (const mode_t mode : {0777, 0757, 01777}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    ExpectRefusedFor(path, path);
    std::filesystem::remove(path / "lock");
  }
  ASSERT_EQ(chmod(path.c_str(), 0755), 0);
  EXPECT_TRUE(DataDir::Open(path).ok());
}

TEST(DataDirTest, ADirectoryThatOthersCanReplaceIsRefused) {
  const ScratchDir scratch;
  const std::filesystem::path parent = scratch.path() / "parent";
  std::filesystem::create_directory(parent);
  ASSERT_EQ(chmod(parent.c_str(), 0777), 0);
  ExpectRefusedFor(parent, parent / "dp");
  ASSERT_EQ(chmod(parent.c_str(), 01777), 0);
  EXPECT_TRUE(DataDir::Open(parent / "dp").ok());
}

TEST(DataDirTest, AJournalThatOthersCanWriteIsRefused) {
  const ScratchDir scratch;
  const std::filesystem::path journal = scratch.path() / "journal.sqlite";
  std::ofstream(journal) << "page";
  ASSERT_EQ(chmod(journal.c_str(), 0666), 0);
  ExpectRefusedFor(journal, scratch.path());
}

TEST(DataDirTest, ADirectoryOfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to give a directory away";
  const ScratchDir scratch;
  const std::filesystem::path path = scratch.path() / "dp";
  std::filesystem::create_directory(path);
  ASSERT_EQ(chown(path.c_str(), 61002, 61002), 0);
  ExpectRefusedFor(path, path);
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
