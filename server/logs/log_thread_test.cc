#include "server/logs/log_thread.h"

#include <atomic>
#include <filesystem>
#include <future>
#include <memory>
#include <string>

#include "base/testing/scratch_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

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
  // Null on an error.
  LogThread::Page ReadPage(const LogQuery& query = {}) {
    std::promise<absl::StatusOr<LogThread::Page>> answer;
    const absl::Status status =
        thread_->Read(kThreadJob, query, [&](auto page) { answer.set_value(std::move(page)); });
    return status.ok() ? answer.get_future().get().value_or(nullptr) : nullptr;
  }
  absl::StatusOr<LogPage> Read() {
    const LogThread::Page page = ReadPage();
    return page == nullptr ? absl::StatusOr<LogPage>(absl::UnknownError("no page")) : *page;
  }
  // Occupies the thread until the promise is set.
  std::promise<void> Block() {
    std::promise<void> release, occupied;
    const std::shared_future<void> released = release.get_future().share();
    EXPECT_TRUE(thread_
                    ->Read(kThreadJob, {},
                           [&occupied, released](auto) {
                             occupied.set_value();
                             released.wait();
                           })
                    .ok());
    occupied.get_future().wait();
    return release;
  }

  LogThreadTest() { Start({}); }
  // Starts the thread anew, as a restart does.
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
  EXPECT_FALSE(thread_->TakeRoomRequest());  // one request is enough
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

TEST_F(LogThreadTest, ReadersThatAskTheSameShareAPageUntilThereIsMore) {
  ASSERT_TRUE(Append({{kStream, 0, "one\n"}}).get().ok());
  const LogThread::Page first = ReadPage();
  EXPECT_EQ(ReadPage(), first);
  EXPECT_NE(ReadPage({.tail_lines = 1}), first);
  ASSERT_TRUE(Append({{kStream, 4, "two\n"}}).get().ok());
  EXPECT_EQ(ReadPage()->chunks.at(0).data, "one\ntwo\n");
}

TEST_F(LogThreadTest, NewsOfRanksMakesAnotherPage) {
  RankOutput begun = kWhole;
  begun.whole = false;
  ASSERT_TRUE(Append({}, {begun}).get().ok());
  EXPECT_EQ(ReadPage({.finished = true})->outstanding_ranks, 1u);
  const auto whole = Append({}, {kWhole}).get();
  const LogThread::Page page = ReadPage({.finished = true});
  EXPECT_EQ(page->outstanding_ranks, 0u);
  EXPECT_EQ(whole->version, page->version);  // wakes the readers that wait
}

TEST_F(LogThreadTest, AThousandFollowersAreQueuedAndServed) {
  std::promise<void> release = Block();
  std::atomic<int> served = 0;
  for (int reader = 0; reader < 1000; ++reader) {
    EXPECT_TRUE(thread_->Read(kThreadJob, {}, [&](auto page) { served += page.ok(); }).ok());
  }
  release.set_value();
  thread_->Stop();
  EXPECT_EQ(served, 1000);
}

TEST_F(LogThreadTest, AnAppendWaitsForAFewReadsOnly) {
  std::promise<void> release = Block();
  int served = 0;
  int served_before_append = -1;
  const auto answer = [&](const auto&) {
    if (++served > 1) return;
    const absl::Status queued =
        thread_->Append(kThreadJob, LogBatch{{{kStream, 0, "one\n"}}},
                        [&](const auto&) { served_before_append = served; });
    EXPECT_TRUE(queued.ok()) << queued;
  };
  for (int reader = 0; reader < 1000; ++reader) {
    EXPECT_TRUE(thread_->Read(kThreadJob, {}, answer).ok());
  }
  release.set_value();
  (void)Read();  // behind the others, and so behind the append
  thread_->Stop();
  EXPECT_EQ(served, 1000);
  EXPECT_EQ(served_before_append, static_cast<int>(LogThread::kReadsPerTurn));
}

TEST_F(LogThreadTest, TooMuchQueuedIsRefusedForNowAndWhatIsWrittenMakesRoomForMore) {
  const LogChunk chunk{kStream, 0, std::string(size_t{8} << 20, 'x')};
  for (int round = 0; round < 2; ++round) {
    std::promise<void> release = Block();
    std::vector<std::future<absl::StatusOr<LogThread::Appended>>> taken;
    for (int i = 0; i < 8; ++i) taken.push_back(Append({chunk}));
    const absl::Status refused = Append({chunk}).get().status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable) << refused;
    EXPECT_THAT(refused.message(), HasSubstr("64 MiB of log lines queued"));
    release.set_value();
    for (auto& append : taken) EXPECT_TRUE(append.get().ok());
  }
}

TEST_F(LogThreadTest, TimesAndNamesCountAsQueuedBytes) {
  LogChunk timed{kStream, 0, "x"};
  timed.times.resize((size_t{33} << 20) / sizeof(LogTime));
  RankOutput named = kWhole;
  named.spool.assign(size_t{33} << 20, 's');
  std::promise<void> release = Block();
  auto taken = Append({timed});
  EXPECT_THAT(Append({}, {named}).get().status().message(), HasSubstr("MiB of log lines queued"));
  EXPECT_THAT(Append({timed}).get().status().message(), HasSubstr("MiB of log lines queued"));
  release.set_value();
  (void)taken.get();
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
