// The driver with heartbeats, and with more calls than it can take at once.

#include <future>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/driver/testing/driver_fixture.h"

namespace dp::server {
namespace {

using ::testing::ElementsAre;

TEST_F(DriverTest, AHeartbeatKeepsTheLease) {
  Start({.lease = absl::Seconds(8)});
  ASSERT_TRUE(Submit(AWorker(1)).get().ok());
  for (int beat = 0; beat < 8; ++beat) {
    clock_.Advance(absl::Seconds(3));
    std::promise<absl::Status> answer;
    ASSERT_TRUE(driver_
                    ->Hear(WorkerId(1), Incarnation(1),
                           [&](const absl::Status& status, const View&) {
                             answer.set_value(Unshared(status));
                           })
                    .ok());
    EXPECT_TRUE(answer.get_future().get().ok());
  }
}

TEST_F(DriverTest, AnotherIncarnationsHeartbeatIsRefused) {
  Start();
  ASSERT_TRUE(Submit(AWorker(1)).get().ok());
  std::promise<absl::Status> answer;
  ASSERT_TRUE(driver_
                  ->Hear(WorkerId(1), Incarnation(2),
                         [&](const absl::Status& status, const View&) {
                           answer.set_value(Unshared(status));
                         })
                  .ok());
  EXPECT_EQ(answer.get_future().get().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(DriverTest, ARenewalWaitsNeitherForTheDiskNorForOtherCalls) {
  Start();
  ASSERT_TRUE(Submit(AWorker(1)).get().ok());
  Revision before;
  Look([&](const View& view) { before = view.coordinator.revision(); });
  auto gate = HoldNextSync(AJob("a"));
  auto queued = Submit(AJob("b"));
  const auto renewal = driver_->Renew(WorkerId(1), Incarnation(1));
  ASSERT_TRUE(renewal.has_value());
  EXPECT_EQ(renewal->revision, before);  // without the job, which is not on the disk
  EXPECT_EQ(renewal->lease.term, absl::Seconds(5));
  gate->set_value();
  EXPECT_TRUE(queued.get().ok());
  EXPECT_GE(driver_->Renew(WorkerId(1), Incarnation(1))->revision, Revision(before.value() + 2));
}

TEST_F(DriverTest, RenewalsKeepTheLeaseAndTheirEndLosesTheWorker) {
  Start({.lease = absl::Seconds(8)});
  ASSERT_TRUE(Submit(AWorker(1)).get().ok());
  for (int beat = 0; beat < 8; ++beat) {
    clock_.Advance(absl::Seconds(3));
    ASSERT_TRUE(driver_->Renew(WorkerId(1), Incarnation(1)).has_value());
    Look([](const View& view) {
      EXPECT_EQ(view.liveness.silent_for(WorkerId(1), view.now), absl::ZeroDuration());
    });
  }
  for (int second = 0; second < 3; ++second) {
    clock_.Advance(absl::Seconds(3));
    Look();
  }
  EXPECT_FALSE(driver_->Renew(WorkerId(1), Incarnation(1)).has_value());
  Look([](const View& view) {
    EXPECT_EQ(view.coordinator.worker(WorkerId(1))->state, core::WorkerState::kLost);
  });
}

TEST_F(DriverTest, ARevokedWorkerIsLostBecauseItWasRevoked) {
  Start({.lease = absl::Seconds(8)});
  ASSERT_TRUE(Submit(AWorker(1)).get().ok());
  for (const bool worker : {false, true}) {
    ASSERT_TRUE(Submit(core::RevokeAccess{"w", worker, absl::UnixEpoch()}).get().ok());
    for (int second = 0; second < 4; ++second) {
      clock_.Advance(absl::Seconds(3));
      EXPECT_EQ(driver_->Renew(WorkerId(1), Incarnation(1)).has_value(), !worker);
      Look();
    }
  }
  Look([](const View& view) {
    const core::Worker& lost = *view.coordinator.worker(WorkerId(1));
    EXPECT_EQ(lost.state, core::WorkerState::kLost);
    EXPECT_THAT(lost.lost_reason, testing::StartsWith("its access was revoked; no heartbeat for"));
  });
}

TEST_F(DriverTest, OnlyTheCurrentIncarnationRenewsItsLeaseAtOnce) {
  Start();
  ASSERT_TRUE(Submit(AWorker(1)).get().ok());
  EXPECT_FALSE(driver_->Renew(WorkerId(1), Incarnation(2)).has_value());
  ASSERT_TRUE(Submit(core::LoseWorker{WorkerId(1), Incarnation(1), "silent"}).get().ok());
  EXPECT_FALSE(driver_->Renew(WorkerId(1), Incarnation(1)).has_value());
  ASSERT_TRUE(Submit(AWorker(2)).get().ok());
  EXPECT_TRUE(driver_->Renew(WorkerId(1), Incarnation(2)).has_value());
  driver_->Stop();
  EXPECT_FALSE(driver_->Renew(WorkerId(1), Incarnation(2)).has_value());
}

TEST_F(DriverTest, AWorkerOfAnEarlierEpochRenewsItsLeaseAtOnce) {
  Start();
  const Epoch first = EpochNow();
  ASSERT_TRUE(Submit(AWorker(1)).get().ok());
  driver_->Stop();
  ended_ = {};
  Start();
  const auto renewal = driver_->Renew(WorkerId(1), Incarnation(1));
  ASSERT_TRUE(renewal.has_value());
  EXPECT_GT(renewal->epoch, first);  // tells the daemon to register
}

TEST_F(DriverTest, AShortLeaseIsInForceAgainAfterARestart) {
  core::SubmitJob job = AJob("a");
  job.spec.detect_within = absl::Seconds(2);
  Start();
  ASSERT_TRUE(Submit(AWorker(1)).get().ok());
  ASSERT_TRUE(Submit(job).get().ok());
  driver_->Stop();
  ended_ = {};
  Start();
  ASSERT_TRUE(Submit(AWorker(1)).get().ok());  // the daemon sees the new epoch
  const auto offered = driver_->Renew(WorkerId(1), Incarnation(1))->lease;
  EXPECT_LT(offered.term, absl::Seconds(5));
  ASSERT_TRUE(driver_->Renew(WorkerId(1), Incarnation(1), offered.number).has_value());
  Look([&](const View& view) { EXPECT_EQ(view.liveness.lease(WorkerId(1)), offered.term); });
}

TEST_F(DriverTest, CallsBeyondABatchWaitForTheNextOne) {
  Start({.batch_max = 2});
  auto gate = HoldNextSync(AJob("a"));
  std::vector<std::future<absl::Status>> answers;
  for (const char* name : {"b", "c", "d"}) answers.push_back(Submit(AJob(name)));
  gate->set_value();
  for (auto& answer : answers) EXPECT_TRUE(answer.get().ok());
  driver_->Stop();
  EXPECT_THAT(journal_.events, ElementsAre("synced 1", "synced 1", "answered", "synced 2",
                                           "answered", "answered", "synced 1", "answered"));
}

TEST_F(DriverTest, AWaitBehindTheBatchCanBeCancelled) {
  Start({.batch_max = 1});
  auto gate = HoldNextSync(AJob("a"));
  auto before = Submit(AJob("b"));
  const Waiters::Ticket ticket = driver_->NewTicket();
  auto waiting = WaitForJobs(ticket, 99);
  driver_->Cancel(ticket);
  gate->set_value();
  EXPECT_EQ(waiting.get(), Wake::kCancelled);
  EXPECT_TRUE(before.get().ok());
}

}  // namespace
}  // namespace dp::server
