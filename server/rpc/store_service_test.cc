#include "gmock/gmock.h"
#include "server/rpc/testing/services_fixture.h"

// Tests the store through a real channel: awaits, barriers, blocked callers.

namespace dp::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StoreServiceTest : public ServicesFixture {};

TEST_F(StoreServiceTest, AnAwaitedKeyIsAnsweredWhenSomebodySetsIt) {
  const uint64_t job = PlacedJob();
  auto waiting = std::async(std::launch::async, [&] { return client_->Await(job, "key", kLong); });
  AwaitParked(1);
  ASSERT_TRUE(client_->Set(job, "key", "value", 1).ok());
  EXPECT_EQ(waiting.get()->results(0).value(), "value");
}

TEST_F(StoreServiceTest, AnAwaitedKeyThatNobodySetsIsNamed) {
  const auto waited = client_->Await(PlacedJob(), "missing", absl::ZeroDuration());
  EXPECT_EQ(waited.status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(waited.status.error_message(), HasSubstr("key 'missing'"));
}

TEST_F(StoreServiceTest, AnAwaitOfEachKeyEndsWithWhatWasFound) {
  const uint64_t job = PlacedJob();
  client_->Set(job, "key", "value", 1);
  v1::AwaitRequest request;
  request.set_job(job);
  request.set_generation(1);
  request.set_each(true);
  request.add_reads()->mutable_check()->add_keys("missing");
  request.add_reads()->mutable_check()->add_keys("key");
  const auto waited = client_->Call(client_->store(), &v1::Store::Stub::Await, request);
  ASSERT_TRUE(waited.ok());
  EXPECT_FALSE(waited->results(0).found());
  EXPECT_TRUE(waited->results(1).found());
}

TEST_F(StoreServiceTest, WhoIsBlockedAndWhichRanksABarrierLacksIsListed) {
  const uint64_t job = PlacedJob(2);
  ASSERT_TRUE(client_->Arrive(job, "meet", /*rank=*/1).ok());
  auto waiting = std::async(
      std::launch::async, [&] { return client_->AwaitBarrier(job, "meet", 2, /*rank=*/1, kLong); });
  AwaitParked(1);
  const auto waiters = client_->ListWaiters(job);
  ASSERT_EQ(waiters->waiters_size(), 1);
  const v1::Waiter& waiter = waiters->waiters(0);
  EXPECT_EQ(waiter.kind(), v1::Waiter::KIND_BARRIER);
  EXPECT_EQ(waiter.key(), "meet");
  EXPECT_EQ(waiter.who(), "rank 1");
  EXPECT_GE(waiter.waiting().seconds(), 60);  // includes the minute of its earlier calls
  EXPECT_EQ(waiter.arrived(), 1);
  EXPECT_THAT(waiter.missing_ranks(), ElementsAre(0));
  ASSERT_TRUE(client_->Arrive(job, "meet", /*rank=*/0).ok());
  EXPECT_TRUE(waiting.get().ok());
  EXPECT_EQ(client_->ListWaiters(job)->waiters_size(), 0);
}

TEST_F(StoreServiceTest, OfAVeryLongKeyTheBeginningIsListed) {
  const uint64_t job = PlacedJob(2);
  const std::string key(20 << 10, 'k');
  auto waiting = std::async(std::launch::async,
                            [&] { return client_->AwaitBarrier(job, key, 2, /*rank=*/1, kLong); });
  AwaitParked(1);
  EXPECT_EQ(client_->ListWaiters(job)->waiters(0).key(), key.substr(0, 1 << 10));
  v1::CancelRequest request;
  request.set_job(job);
  ASSERT_TRUE(client_->Call(client_->jobs(), &v1::Jobs::Stub::Cancel, request).ok());
  EXPECT_FALSE(waiting.get().ok());
}

TEST_F(StoreServiceTest, ABarrierThatTimesOutNamesTheRanksThatHaveNotCome) {
  const uint64_t job = PlacedJob(2);
  ASSERT_TRUE(client_->Arrive(job, "meet", /*rank=*/1).ok());
  const auto waited = client_->AwaitBarrier(job, "meet", 2, /*rank=*/1, absl::ZeroDuration());
  EXPECT_EQ(waited.status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(waited.status.error_message(),
            "still missing: barrier 'meet' (1 of 2 have arrived); rank 0 has not come");
}

TEST_F(StoreServiceTest, WhoseDaemonTellsOfItsConnectionIsNamedFromThenOn) {
  const uint64_t job = PlacedJob(2);
  ASSERT_TRUE(client_->Arrive(job, "meet", /*rank=*/1).ok());
  auto waiting = std::async(std::launch::async, [&] {
    return client_->AwaitBarrierFrom(job, "meet", 2, "10.0.0.2:40312", kLong);
  });
  AwaitParked(1);
  EXPECT_EQ(client_->ListWaiters(job)->waiters(0).who(), "a rank");
  ASSERT_TRUE(client_->TellClient(worker_, job, /*rank=*/1, "10.0.0.2:40312").ok());
  const auto named = client_->ListWaiters(job);
  EXPECT_EQ(named->waiters(0).who(), "rank 1 on w");
  EXPECT_THAT(named->waiters(0).missing_ranks(), ElementsAre(0));
  ASSERT_TRUE(client_->Arrive(job, "meet", /*rank=*/0).ok());
  EXPECT_TRUE(waiting.get().ok());
}

TEST_F(StoreServiceTest, ForAKeyThoseAreMissingThatHaveNotComeToTheStoreYet) {
  const uint64_t job = PlacedJob(3);
  auto waiting = std::async(std::launch::async, [&] { return client_->Await(job, "k", kLong); });
  AwaitParked(1);
  EXPECT_THAT(client_->ListWaiters(job)->waiters(0).missing_ranks(), ElementsAre());
  ASSERT_TRUE(client_->TellClient(worker_, job, /*rank=*/1, "127.0.0.1:40312").ok());
  EXPECT_THAT(client_->ListWaiters(job)->waiters(0).missing_ranks(), ElementsAre(0, 2));
  ASSERT_TRUE(client_->Set(job, "k", "v", 1).ok());
  EXPECT_TRUE(waiting.get().ok());
}

TEST_F(StoreServiceTest, ATimeoutNamesTheRanksThatHaveNotComeByTheConnectionsOfThoseThatHave) {
  const uint64_t job = PlacedJob(2);
  ASSERT_TRUE(client_->TellClient(worker_, job, /*rank=*/1, "10.0.0.2:40312").ok());
  ASSERT_TRUE(client_->Arrive(job, "meet", /*rank=*/1).ok());
  const auto waited =
      client_->AwaitBarrierFrom(job, "meet", 2, "10.0.0.2:40312", absl::ZeroDuration());
  EXPECT_THAT(waited.status.error_message(), HasSubstr("rank 0 has not come"));
}

TEST_F(StoreServiceTest, ARendezvousListsWhoHasJoinedAndWhoIsMissing) {
  const uint64_t job = PlacedJob(2);
  ASSERT_TRUE(client_->Join(job, 1).ok());
  const auto waiters = client_->ListWaiters(job);
  ASSERT_EQ(waiters->waiters_size(), 1);
  EXPECT_EQ(waiters->waiters(0).kind(), v1::Waiter::KIND_RENDEZVOUS);
  EXPECT_THAT(waiters->waiters(0).who(), HasSubstr("rank 1 on "));
  EXPECT_THAT(waiters->waiters(0).missing_ranks(), ElementsAre(0));
  EXPECT_EQ(client_->ListWaiters(job + 1).status.error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(StoreServiceTest, ARendezvousOfManyListsTheFirstThatAreMissing) {
  const uint64_t job = PlacedJob(300);
  ASSERT_TRUE(client_->Join(job, 0).ok());
  const auto waiters = client_->ListWaiters(job);
  ASSERT_EQ(waiters->waiters_size(), 1);
  EXPECT_EQ(waiters->waiters(0).missing_ranks_size(), 100);
  EXPECT_EQ(waiters->waiters(0).missing_ranks(99), 100);
  EXPECT_EQ(waiters->waiters(0).count(), 300);
}

TEST_F(StoreServiceTest, WhatChangesTheStoreCannotBeAwaited) {
  v1::AwaitRequest request;
  request.set_job(PlacedJob());
  request.set_generation(1);
  request.add_reads()->mutable_queue_pop()->set_key("queue");
  EXPECT_EQ(client_->Call(client_->store(), &v1::Store::Stub::Await, request).status.error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(StoreServiceTest, AWaitOnAStoreOfAJobThatEndsIsAborted) {
  const uint64_t job = PlacedJob();
  auto waiting = std::async(std::launch::async, [&] { return client_->Await(job, "key", kLong); });
  // Parked before the job ends: a later await would fail with FAILED_PRECONDITION.
  AwaitParked(1);
  FinishJob(job);
  EXPECT_EQ(waiting.get().status.error_code(), grpc::StatusCode::ABORTED);
}

}  // namespace
}  // namespace dp::server
