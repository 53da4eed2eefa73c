#include "gmock/gmock.h"
#include "server/rpc/testing/services_fixture.h"

// Tests logs through a real channel: what the wire adds to log_store_test.

namespace dp::server {
namespace {

using ::testing::ContainsRegex;

class LogsServiceTest : public ServicesFixture {};

TEST_F(LogsServiceTest, AppendedLogsAreAcknowledgedAndRead) {
  const uint64_t job = PlacedJob();
  const auto appended = client_->AppendLog(worker_, job, 0, "one\ntwo\n");
  ASSERT_TRUE(appended.ok()) << appended.status.error_message();
  ASSERT_EQ(appended->acknowledged_size(), 1);
  EXPECT_EQ(appended->acknowledged(0).offset(), 8u);
  const auto read = client_->ReadLogs(job, kLong);
  ASSERT_EQ(read->chunks_size(), 1);
  EXPECT_EQ(read->chunks(0).data(), "one\ntwo\n");
  EXPECT_FALSE(read->finished());
}

TEST_F(LogsServiceTest, LinesComeWithTheirTimesAndFromATimeOn) {
  const uint64_t job = PlacedJob();
  v1::AppendLogsRequest append = client_->AppendRequest(worker_, job, 0, "one\ntwo\n");
  for (const int offset : {0, 4}) {
    v1::LogTime* time = append.mutable_chunks(0)->add_times();
    time->set_offset(offset);
    time->mutable_time()->set_seconds(100 + offset);
  }
  ASSERT_TRUE(client_->Call(client_->logs(), &v1::Logs::Stub::Append, append).ok());
  v1::ReadLogsRequest read;
  read.set_job(job);
  read.set_with_times(true);
  read.mutable_since()->set_seconds(102);
  const auto page = client_->Call(client_->logs(), &v1::Logs::Stub::Read, read);
  ASSERT_EQ(page->chunks_size(), 1);
  EXPECT_EQ(page->chunks(0).data(), "two\n");
  ASSERT_EQ(page->chunks(0).times_size(), 1);
  EXPECT_EQ(page->chunks(0).times(0).offset(), 4u);
  EXPECT_EQ(page->chunks(0).times(0).time().seconds(), 104);
}

TEST_F(LogsServiceTest, MissingBytesAreToldAsALine) {
  const uint64_t job = PlacedJob();
  v1::AppendLogsRequest append = client_->AppendRequest(worker_, job, 0, "");
  append.mutable_chunks(0)->set_cut_bytes(1000);
  const auto appended = client_->Call(client_->logs(), &v1::Logs::Stub::Append, append);
  EXPECT_EQ(appended->acknowledged(0).offset(), 1000u);
  const auto read = client_->ReadLogs(job, kLong);
  EXPECT_EQ(read->chunks(0).cut_bytes(), 1000u);
  EXPECT_THAT(read->chunks(0).data(), ContainsRegex("1000 bytes of rank 0's standard output"));
  append.mutable_chunks(0)->set_offset(1000);
  append.mutable_chunks(0)->set_cut_reason(v1::LOG_CUT_REASON_EMPTIED);
  (void)client_->Call(client_->logs(), &v1::Logs::Stub::Append, append);
  EXPECT_THAT(client_->ReadLogs(job, kLong)->chunks(1).data(), ContainsRegex("rank 0 emptied"));
  append.mutable_chunks(0)->set_data("both");
  EXPECT_EQ(client_->Call(client_->logs(), &v1::Logs::Stub::Append, append).status.error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(LogsServiceTest, LogsOfAnotherCoordinatorsJobOfThatNumberAreRefused) {
  const uint64_t job = PlacedJob();
  v1::AppendLogsRequest append = client_->AppendRequest(worker_, job, 0, "one\n");
  *append.mutable_job_submitted_at() = client_->GetJob(job)->job().submitted_at();
  EXPECT_TRUE(client_->Call(client_->logs(), &v1::Logs::Stub::Append, append).ok());
  append.mutable_job_submitted_at()->set_seconds(1);
  EXPECT_EQ(client_->Call(client_->logs(), &v1::Logs::Stub::Append, append).status.error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(LogsServiceTest, AFollowerIsWokenByNewLines) {
  const uint64_t job = PlacedJob();
  client_->AppendLog(worker_, job, 0, "one\n");
  const auto first = client_->ReadLogs(job, kLong);
  auto following =
      std::async(std::launch::async, [&] { return client_->ReadLogs(job, kLong, first.response); });
  AwaitParked(1);
  client_->AppendLog(worker_, job, 4, "two\n");
  EXPECT_EQ(following.get()->chunks(0).data(), "two\n");
}

TEST_F(LogsServiceTest, HalfALineDoesNotEndAFollowersWait) {
  const uint64_t job = PlacedJob();
  auto following = std::async(std::launch::async, [&] { return client_->ReadLogs(job, kLong); });
  AwaitParked(1);
  client_->AppendLog(worker_, job, 0, "half");
  client_->AppendLog(worker_, job, 4, " a line\n");
  EXPECT_EQ(following.get()->chunks(0).data(), "half a line\n");
}

TEST_F(LogsServiceTest, TheEndOfTheJobEndsAFollowersWait) {
  const uint64_t job = PlacedJob();
  client_->AppendLog(worker_, job, 0, "no newline");
  auto following = std::async(std::launch::async, [&] { return client_->ReadLogs(job, kLong); });
  AwaitParked(1);
  FinishJob(job);
  const auto read = following.get();
  EXPECT_EQ(read->chunks(0).data(), "no newline");
  EXPECT_TRUE(read->finished());
}

TEST_F(LogsServiceTest, LogsOfARankThatNeverWasAreRefused) {
  const uint64_t job = PlacedJob();
  EXPECT_EQ(client_->AppendLog(worker_, job, 0, "x", /*rank=*/7).status.error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(client_->AppendLog(worker_ + 1, job, 0, "x").status.error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(LogsServiceTest, WhatHasNotArrivedOfAJobThatIsOverIsToldUntilItsWorkerSaysThatItHas) {
  const uint64_t job = PlacedJob();
  v1::AppendLogsRequest append = client_->AppendRequest(worker_, job, 0, "one\n");
  v1::RankOutput* told = append.add_ranks();
  told->set_generation(1);
  told->set_spool("/state/spool/1/1/0");
  ASSERT_TRUE(client_->Call(client_->logs(), &v1::Logs::Stub::Append, append).ok());
  v1::ReadLogsRequest read;
  read.set_job(job);
  read.set_without_lines(true);
  read.mutable_timeout()->set_seconds(absl::ToInt64Seconds(kLong));
  EXPECT_EQ(client_->Call(client_->logs(), &v1::Logs::Stub::Read, read)->outstanding_ranks(), 0);
  FinishJob(job);
  const auto page = client_->Call(client_->logs(), &v1::Logs::Stub::Read, read);
  EXPECT_EQ(page->chunks_size(), 0);
  EXPECT_TRUE(page->finished());
  ASSERT_EQ(page->outstanding_size(), 1);
  EXPECT_EQ(page->outstanding(0).spool(), "/state/spool/1/1/0");
  EXPECT_EQ(page->outstanding(0).stored_bytes(), 4u);
  EXPECT_FALSE(page->outstanding(0).host().empty());
  told->set_whole(true);
  append.clear_chunks();
  ASSERT_TRUE(client_->Call(client_->logs(), &v1::Logs::Stub::Append, append).ok());
  EXPECT_EQ(client_->Call(client_->logs(), &v1::Logs::Stub::Read, read)->outstanding_ranks(), 0);
}

class OutstandingOutputTest : public LogsServiceTest {
 protected:
  // A terminal job whose worker still has output of it.
  void SetUp() override {
    LogsServiceTest::SetUp();
    job_ = PlacedJob();
    Tell(/*whole=*/false);
    FinishJob(job_);
    end_ = client_->ReadLogs(job_, kLong).response;
    EXPECT_TRUE(end_.finished());
  }
  void Tell(bool whole) {
    v1::AppendLogsRequest append = client_->AppendRequest(worker_, job_, 0, "");
    append.clear_chunks();
    v1::RankOutput* told = append.add_ranks();
    told->set_generation(1);
    told->set_spool("/state/spool/1/1/0");
    told->set_whole(whole);
    ASSERT_TRUE(client_->Call(client_->logs(), &v1::Logs::Stub::Append, append).ok());
  }
  // Reads on as a follower that waits for outstanding output.
  std::future<Answered<v1::ReadLogsResponse>> Await() {
    v1::ReadLogsRequest read;
    read.set_job(job_);
    *read.mutable_from() = end_.next();
    read.set_await_outstanding(true);
    read.mutable_timeout()->set_seconds(absl::ToInt64Seconds(kLong));
    return std::async(std::launch::async, [this, read] {
      return client_->Call(client_->logs(), &v1::Logs::Stub::Read, read);
    });
  }

  uint64_t job_ = 0;
  v1::ReadLogsResponse end_;
};

TEST_F(OutstandingOutputTest, AFollowerThatWaitsForItGetsTheLinesThatCome) {
  auto following = Await();
  AwaitParked(1);
  client_->AppendLog(worker_, job_, 0, "late\n");
  const auto late = following.get();
  ASSERT_EQ(late->chunks_size(), 1) << late.response.DebugString();
  EXPECT_EQ(late->chunks(0).data(), "late\n");
  EXPECT_EQ(late->outstanding_ranks(), 1);
}

TEST_F(OutstandingOutputTest, AFollowerThatWaitsForItLearnsThatAllIsThere) {
  auto following = Await();
  AwaitParked(1);
  Tell(/*whole=*/true);
  const auto late = following.get();
  ASSERT_TRUE(late.ok()) << late.status.error_message();
  EXPECT_TRUE(late->finished());
  EXPECT_EQ(late->outstanding_ranks(), 0);
}

TEST_F(LogsServiceTest, LinesSayWhichHostTheyComeFrom) {
  const uint64_t job = PlacedJob();
  client_->AppendLog(worker_, job, 0, "one\n");
  const auto read = client_->ReadLogs(job, kLong);
  ASSERT_EQ(read->chunks_size(), 1);
  EXPECT_FALSE(read->chunks(0).host().empty());
}

}  // namespace
}  // namespace dp::server
