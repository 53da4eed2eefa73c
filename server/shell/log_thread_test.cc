#include "server/shell/log_thread.h"

#include <filesystem>
#include <future>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/shell/scratch_dir.h"

namespace dp::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr JobId kThreadJob(7);
constexpr LogStreamKey kStream{Generation(1), 0, LogStreamKey::Kind::kStdout};
const RankOutput kWhole = {Generation(1), 1, "worker-a", "host-a", "/spool/1", /*whole=*/true};

class LogThreadTest : public ::testing::Test {
 protected:
  std::future<absl::StatusOr<LogThread::Appended>> Append(std::vector<LogChunk> chunks,
                                                          std::vector<RankOutput> ranks = {}) {
    auto answer = std::make_shared<std::promise<absl::StatusOr<LogThread::Appended>>>();
    const absl::Status status =
        thread_->Append(kThreadJob, LogBatch{std::move(chunks), std::move(ranks)},
                        [answer](auto appended) { answer->set_value(appended); });
    if (!status.ok()) answer->set_value(status);
    return answer->get_future();
  }
  absl::StatusOr<LogPage> Read() {
    std::promise<absl::StatusOr<LogPage>> answer;
    const absl::Status status =
        thread_->Read(kThreadJob, {}, [&](auto page) { answer.set_value(std::move(page)); });
    return status.ok() ? answer.get_future().get() : status;
  }

  LogThreadTest() { Start({}); }
  // As a restart does.
  void Start(const LogLimits& limits) {
    thread_.reset();
    thread_ =
        std::make_unique<LogThread>(LogStore(scratch_.path(), limits), [](const absl::Status&) {});
  }

  const ScratchDir scratch_;
  std::unique_ptr<LogThread> thread_;
};

TEST_F(LogThreadTest, AcknowledgesTheEndOfEachStreamOnce) {
  const auto appended = Append({{kStream, 0, "one\n"}, {kStream, 4, "two\n"}}).get();
  ASSERT_TRUE(appended.ok()) << appended.status();
  EXPECT_THAT(appended->acknowledged, ElementsAre(LogPosition{kStream, 8}));
}

TEST_F(LogThreadTest, AReadSeesWhatWasAcknowledged) {
  ASSERT_TRUE(Append({{kStream, 0, "one\n"}}).get().ok());
  const auto page = Read();
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->chunks.at(0).data, "one\n");
}

TEST_F(LogThreadTest, WhatIsDroppedIsGoneFromMemoryAndDisk) {
  ASSERT_TRUE(Append({{kStream, 0, "one\n"}}).get().ok());
  ASSERT_TRUE(thread_->Drop({kThreadJob, JobId(8)}).ok());
  const auto page = Read();  // in another batch, or in the same one before the drop
  ASSERT_TRUE(page.ok()) << page.status();
  thread_->Stop();
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "7"));
}

TEST_F(LogThreadTest, WithoutRoomAppendsAreRefusedUntilJobsThatHaveEndedMadeSome) {
  Start({.bytes_max = 100});
  ASSERT_TRUE(Append({{kStream, 0, std::string(100, 'x')}}).get().ok());
  const LogChunk more{kStream, 100, "more\n"};
  EXPECT_EQ(Append({more}).get().status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(thread_->room().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(thread_->TakeRoomRequest());
  EXPECT_FALSE(thread_->TakeRoomRequest());  // one is enough
  ASSERT_TRUE(thread_->MakeRoom({kThreadJob}).ok());
  (void)Read();  // in another batch, or in the same one before the room is made
  (void)Read();
  EXPECT_TRUE(Append({more}).get().ok());
  EXPECT_TRUE(thread_->room().ok());
}

TEST_F(LogThreadTest, NothingOfARequestIsAcknowledgedOfWhichAPartFoundNoRoom) {
  Start({.bytes_max = 4});
  EXPECT_FALSE(Append({{kStream, 0, "one\n"}, {kStream, 4, "two\n"}}).get().ok());
  Start({});
  const auto again = Append({{kStream, 0, "one\n"}, {kStream, 4, "two\n"}}).get();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_THAT(again->acknowledged, ElementsAre(LogPosition{kStream, 8}));
}

TEST_F(LogThreadTest, AFullDiskIsToldWhereItIsFirstMetByNewsOfRanks) {
  const auto roster = scratch_.path() / "7" / "1" / "ranks";
  ASSERT_TRUE(Append({}, {RankOutput{Generation(1), 0, "worker-a"}}).get().ok());
  std::filesystem::remove(roster);
  std::filesystem::create_symlink("/dev/full", roster);
  const absl::Status refused = Append({}, {kWhole}).get().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_THAT(thread_->room().message(), HasSubstr("No space left on device"));
  std::filesystem::remove(roster);
  EXPECT_TRUE(Append({}, {kWhole}).get().ok());
  EXPECT_TRUE(thread_->room().ok());
}

TEST_F(LogThreadTest, NewsOfRanksDoesNotHideThatThereIsNoRoomForBytes) {
  Start({.disk_reserve = ~uint64_t{0}});
  EXPECT_FALSE(Append({{kStream, 0, "one\n"}}).get().ok());
  EXPECT_TRUE(Append({}, {kWhole}).get().ok());
  EXPECT_EQ(thread_->room().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(LogThreadTest, StoppingAnswersWhatWasAcceptedAndRefusesTheRest) {
  auto accepted = Append({{kStream, 0, "one\n"}});
  thread_->Stop();
  EXPECT_TRUE(accepted.get().ok());
  EXPECT_EQ(Append({}).get().status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(LogThreadTest, AFileThatCannotBeWrittenFailsItsCallAlone) {
  std::filesystem::create_directories(scratch_.path() / "7" / "1" / "0.stderr");
  const LogStreamKey blocked{Generation(1), 0, LogStreamKey::Kind::kStderr};
  EXPECT_FALSE(Append({{blocked, 0, "x"}}).get().ok());
}

}  // namespace
}  // namespace dp::server
