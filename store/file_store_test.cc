#include "store/file_store.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/check.h"
#include "store/testing/store_conformance.h"

namespace dp {
namespace {

using ::testing::HasSubstr;

// A path in a folder of its own, which the destructor removes.
class TemporaryPath {
 public:
  TemporaryPath() {
    char folder[] = "/tmp/dp-file-store-XXXXXX";
    DP_CHECK(mkdtemp(folder) != nullptr);
    folder_ = folder;
  }
  ~TemporaryPath() { std::filesystem::remove_all(folder_); }

  std::string file() const { return folder_ + "/store"; }
  bool exists() const { return std::filesystem::exists(file()); }

 private:
  std::string folder_;
};

// Two members of one run. Operations go to them in turn, so each test also tests what one member
// sees of the other.
class TwoMembers final : public Store {
 public:
  absl::StatusOr<std::vector<StoreResult>> Execute(
      absl::Span<const StoreOperation> operations) override {
    return Next().Execute(operations);
  }
  absl::StatusOr<std::vector<StoreResult>> Await(absl::Span<const StoreOperation> reads,
                                                 absl::Duration timeout) override {
    return Next().Await(reads, timeout);
  }

 private:
  FileStore& Next() { return turn_++ % 2 == 0 ? *one_ : *two_; }

  TemporaryPath path_;
  std::unique_ptr<FileStore> one_ = FileStore::Open(path_.file(), 2).value();
  std::unique_ptr<FileStore> two_ = FileStore::Open(path_.file(), 2).value();
  std::atomic<unsigned> turn_ = 0;
};

INSTANTIATE_TEST_SUITE_P(FileStore, StoreConformance,
                         ::testing::Values([] { return std::make_unique<TwoMembers>(); }));
INSTANTIATE_TEST_SUITE_P(FileStore, StoreAppendConformance,
                         ::testing::Values([] { return std::make_unique<TwoMembers>(); }));
INSTANTIATE_TEST_SUITE_P(FileStore, StoreLaterVerbsConformance,
                         ::testing::Values([] { return std::make_unique<TwoMembers>(); }));
INSTANTIATE_TEST_SUITE_P(FileStore, StoreBatchConformance,
                         ::testing::Values([] { return std::make_unique<TwoMembers>(); }));

std::string OpenError(const TemporaryPath& path, int members) {
  const auto store = FileStore::Open(path.file(), members);
  return std::string(store.status().message());
}

// Runs `act` in a child process that ends without any clean-up, as by kill -9.
template <typename Act>
void InAProcessThatDies(Act act) {
  const pid_t child = fork();
  DP_CHECK(child >= 0);
  if (child == 0) {
    act();
    _exit(0);
  }
  DP_CHECK(waitpid(child, nullptr, 0) == child);
}

TEST(FileStoreTest, TheLastToLeaveRemovesTheFile) {
  TemporaryPath path;
  auto one = FileStore::Open(path.file(), 2).value();
  auto two = FileStore::Open(path.file(), 2).value();
  one.reset();
  EXPECT_TRUE(path.exists());
  two.reset();
  EXPECT_FALSE(path.exists());
}

TEST(FileStoreTest, ManyMembersThatLeaveAtOnceLeaveNoFile) {
  TemporaryPath path;
  std::vector<std::unique_ptr<FileStore>> members;
  for (int i = 0; i < 8; ++i) members.push_back(FileStore::Open(path.file(), 8).value());
  {
    std::vector<std::jthread> leaving;
    for (auto& member : members) leaving.emplace_back([&member] { member.reset(); });
  }
  EXPECT_FALSE(path.exists());
}

TEST(FileStoreTest, TheFileOfARunWhoseMemberDiedIsStale) {
  TemporaryPath path;
  InAProcessThatDies([&] { (void)FileStore::Open(path.file(), 2).value().release(); });
  EXPECT_THAT(OpenError(path, 2), HasSubstr("was left by a member that died"));
  EXPECT_THAT(OpenError(path, 2), HasSubstr("remove it"));
}

TEST(FileStoreTest, AFileThatAllHaveLeftBeforeAllHadComeIsStale) {
  TemporaryPath path;
  FileStore::Open(path.file(), 2).value().reset();
  EXPECT_THAT(OpenError(path, 2), HasSubstr("has been left by all who had joined"));
}

TEST(FileStoreTest, OneMemberTooManyIsRefused) {
  TemporaryPath path;
  const auto only = FileStore::Open(path.file(), 1).value();
  constexpr char kNotStale[] = ", and some of them run; start each member once";
  EXPECT_THAT(OpenError(path, 1),
              HasSubstr(std::string("has had its 1 members already") + kNotStale));
  EXPECT_THAT(OpenError(path, 2),
              HasSubstr(std::string("with 1 members, this one has 2") + kNotStale));
}

TEST(FileStoreTest, AnotherFileIsNotTouched) {
  TemporaryPath path;
  std::ofstream(path.file()) << "a letter to somebody, longer than the header of a store is";
  EXPECT_THAT(OpenError(path, 1), HasSubstr("is no store"));
  EXPECT_TRUE(path.exists());
}

TEST(FileStoreTest, AFileOfAnotherReleaseIsNamed) {
  TemporaryPath path;
  std::ofstream(path.file()) << "dpstore2, and more bytes than the header of a store has";
  EXPECT_THAT(OpenError(path, 1),
              HasSubstr("is of another release of dp, of format 2 instead of 1"));
}

TEST(FileStoreTest, ADirectoryThatIsNotThereIsNamed) {
  EXPECT_EQ(FileStore::Open("/nowhere/at/all", 1).status().code(), absl::StatusCode::kNotFound);
}

TEST(FileStoreTest, AnEmptyFileIsTakenForANewOne) {
  TemporaryPath path;
  std::ofstream(path.file()).flush();
  EXPECT_TRUE(FileStore::Open(path.file(), 1).ok());
}

TEST(FileStoreTest, ARecordThatADyingProcessWroteInPartIsNone) {
  TemporaryPath path;
  const auto store = FileStore::Open(path.file(), 1).value();
  ASSERT_TRUE(store->Set("a", "1").ok());
  std::ofstream(path.file(), std::ios::app) << "torn";
  ASSERT_TRUE(store->Set("b", "2").ok());
  EXPECT_THAT(*store->ListKeys(), ::testing::ElementsAre("a", "b"));
}

// The file's eight-byte numbers: a title, the end of the records, the members, those that have
// joined and left, then the first record's size.
TEST(FileStoreTest, DamagedNumbersAreAnErrorAndNoLongWait) {
  constexpr int kEnd = 1, kMembers = 2, kJoined = 3, kFirstSize = 5;
  const auto damaged = [](const std::vector<std::pair<int, uint64_t>>& numbers) {
    TemporaryPath path;
    const auto store = FileStore::Open(path.file(), 2).value();
    std::fstream file(path.file(), std::ios::binary | std::ios::in | std::ios::out);
    for (const auto& [place, number] : numbers) {
      file.seekp(8 * place);
      file.write(reinterpret_cast<const char*>(&number), sizeof(number));
    }
    file.close();
    return store->Get("key", absl::ZeroDuration()).status().code();
  };
  // The record would end within the eight bytes of its size.
  EXPECT_EQ(damaged({{kEnd, 44}, {kFirstSize, uint64_t{1} << 62}}), absl::StatusCode::kDataLoss);
  EXPECT_EQ(damaged({{kEnd, 56}, {kFirstSize, 9}}), absl::StatusCode::kDataLoss);
  // More than any memory has.
  EXPECT_EQ(damaged({{kEnd, uint64_t{1} << 62}, {kFirstSize, uint64_t{1} << 61}}),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(damaged({{kJoined, uint64_t{1} << 62}}), absl::StatusCode::kDataLoss);
  EXPECT_EQ(damaged({{kMembers, uint64_t{1} << 62}, {kJoined, uint64_t{1} << 61}}),
            absl::StatusCode::kDataLoss);
}

TEST(FileStoreTest, ProcessesCountTogether) {
  constexpr int kProcesses = 3, kAdds = 100;
  TemporaryPath path;
  const auto store = FileStore::Open(path.file(), kProcesses + 1).value();
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    const auto mine = FileStore::Open(path.file(), kProcesses + 1).value();
    bool all = true;
    for (int i = 0; i < kAdds; ++i) all = mine->Add("n", 1).ok() && all;
    _exit(all && mine->Barrier("done", kProcesses + 1, absl::Seconds(30)).ok() ? 0 : 1);
  }
  EXPECT_TRUE(store->Barrier("done", kProcesses + 1, absl::Seconds(30)).ok());
  EXPECT_EQ(*store->Get("n", absl::ZeroDuration()), absl::StrCat(kProcesses * kAdds));
  for (const pid_t child : children) {
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

}  // namespace
}  // namespace dp
