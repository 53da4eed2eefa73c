#include "server/journal/sqlite_mark.h"

#include <sqlite3.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "base/testing/scratch_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

// The system's files, with syncs that are counted and can be made to fail.
class CountedSyncs {
 public:
  CountedSyncs() {
    system_ = sqlite3_vfs_find(nullptr);
    vfs_ = *system_;
    vfs_.zName = "counted-syncs";
    vfs_.xOpen = Open;
    EXPECT_EQ(sqlite3_vfs_register(&vfs_, /*makeDflt=*/0), SQLITE_OK);
    fail_ = false;
    count_ = 0;
  }
  ~CountedSyncs() { sqlite3_vfs_unregister(&vfs_); }

  static int count() { return count_; }
  // Returns once `count` syncs have begun.
  static void Await(int count) {
    for (int now = count_; now < count; now = count_) count_.wait(now);
  }
  static void Fail() { fail_ = true; }

 private:
  static int Open(sqlite3_vfs*, const char* path, sqlite3_file* file, int flags, int* out) {
    const int opened = system_->xOpen(system_, path, file, flags, out);
    if (opened != SQLITE_OK) return opened;
    sync_ = file->pMethods->xSync;
    methods_ = *file->pMethods;
    methods_.xSync = Sync;
    file->pMethods = &methods_;
    return SQLITE_OK;
  }
  static int Sync(sqlite3_file* file, int flags) {
    ++count_;
    count_.notify_all();
    return fail_ ? SQLITE_IOERR_FSYNC : sync_(file, flags);
  }

  static inline sqlite3_vfs* system_ = nullptr;
  static inline sqlite3_io_methods methods_;
  static inline int (*sync_)(sqlite3_file*, int) = nullptr;
  static inline std::atomic<bool> fail_ = false;
  static inline std::atomic<int> count_ = 0;
  sqlite3_vfs vfs_{};
};

class SqliteMarkTest : public ::testing::Test {
 protected:
  SqliteMarkTest() { std::ofstream(journal_) << "a journal"; }

  std::unique_ptr<SqliteMark> Open(SqliteMark::Sync sync = SqliteMark::Sync::kBeside) {
    auto mark = SqliteMark::Open(journal_, "counted-syncs", sync);
    EXPECT_TRUE(mark.ok()) << mark.status();
    return *std::move(mark);
  }

  const ScratchDir scratch_;
  const CountedSyncs syncs_;
  const std::string journal_ = (scratch_.path() / "journal.sqlite").string();
};

TEST_F(SqliteMarkTest, ThereIsNoneUntilItIsCreated) {
  EXPECT_EQ(Open()->sequence(), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(journal_ + "-mark"));
  ASSERT_TRUE(Open()->Create(7).ok());
  EXPECT_EQ(Open()->sequence(), 7u);
}

TEST_F(SqliteMarkTest, ARaisedOneIsThereAtOnceForTheNextProcess) {
  const auto mark = Open();
  ASSERT_TRUE(mark->Create(0).ok());
  for (const uint64_t sequence : {uint64_t{1}, uint64_t{707}, uint64_t{1} << 63}) {
    ASSERT_TRUE(mark->Raise(sequence).ok());
    EXPECT_EQ(Open()->sequence(), sequence);
  }
}

TEST_F(SqliteMarkTest, TheFileIsABlockFromTheBeginningSoThatAFullDiskTakesEveryMark) {
  const auto mark = Open();
  ASSERT_TRUE(mark->Create(1).ok());
  EXPECT_EQ(std::filesystem::file_size(mark->path()), 4096u);
  ASSERT_TRUE(mark->Raise(2).ok());
  EXPECT_EQ(std::filesystem::file_size(mark->path()), 4096u);
}

TEST_F(SqliteMarkTest, ItIsSyncedSoonAfterItIsRaisedAndNobodyWaits) {
  const auto mark = Open();
  ASSERT_TRUE(mark->Create(0).ok());
  for (int batch = 1; batch <= 3; ++batch) {
    ASSERT_TRUE(mark->Raise(batch).ok());
    CountedSyncs::Await(1 + batch);
  }
}

TEST_F(SqliteMarkTest, TheLastOneIsSyncedBeforeTheEnd) {
  auto mark = Open();
  ASSERT_TRUE(mark->Create(0).ok());
  ASSERT_TRUE(mark->Raise(1).ok());
  mark.reset();
  EXPECT_EQ(CountedSyncs::count(), 2);
}

TEST_F(SqliteMarkTest, ASyncThatFailsBesideFailsALaterRaise) {
  const auto mark = Open();
  ASSERT_TRUE(mark->Create(0).ok());
  CountedSyncs::Fail();
  absl::Status status;
  for (uint64_t batch = 1; status.ok(); ++batch) status = mark->Raise(batch);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("-mark cannot be synced"));
}

TEST_F(SqliteMarkTest, ASyncThatFailsAtOnceFailsTheRaise) {
  const auto mark = Open(SqliteMark::Sync::kAtOnce);
  ASSERT_TRUE(mark->Create(0).ok());
  CountedSyncs::Fail();
  EXPECT_EQ(mark->Raise(1).code(), absl::StatusCode::kInternal);
}

// A crash may leave the file without its content.
TEST_F(SqliteMarkTest, OneThatWasNeverWrittenIsNone) {
  for (const size_t bytes : {size_t{0}, size_t{100}, size_t{4096}}) {
    std::ofstream(journal_ + "-mark", std::ios::binary) << std::string(bytes, '\0');
    const auto mark = Open();
    EXPECT_EQ(mark->sequence(), std::nullopt);
    EXPECT_FALSE(mark->damaged());
  }
}

TEST_F(SqliteMarkTest, ABitThatFlipsIsDamage) {
  ASSERT_TRUE(Open()->Create(123'456).ok());
  for (int at = 0; at < 60; ++at) {
    std::fstream file(journal_ + "-mark", std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const char byte = static_cast<char>(file.get());
    file.seekp(at);
    file.put(static_cast<char>(byte ^ 1)).flush();
    const auto mark = Open();
    EXPECT_TRUE(mark->damaged()) << at;
    EXPECT_EQ(mark->sequence(), std::nullopt);
    file.seekp(at);
    file.put(byte);
  }
}

}  // namespace
}  // namespace dp::server
