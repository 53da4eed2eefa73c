#include "worker/trainer/loop/first_step_report.h"

#include <memory>

#include "base/mutex.h"
#include "client/testing/in_process.h"
#include "dp/v1/worlds.grpc.pb.h"
#include "gtest/gtest.h"

namespace dp::trainer {
namespace {

// A coordinator that is away for the first `absent` calls, or rejects all.
class CountingWorlds final : public v1::Worlds::Service {
 public:
  explicit CountingWorlds(int absent, absl::Status refusal = {})
      : absent_(absent), refusal_(std::move(refusal)) {}

  client::Connection& connection() { return *connection_; }

  grpc::Status CompleteFirstStep(grpc::ServerContext*, const v1::CompleteFirstStepRequest* request,
                                 v1::CompleteFirstStepResponse*) override {
    MutexLock lock(mu_);
    ++calls_;
    if (calls_ <= absent_) return {grpc::StatusCode::UNAVAILABLE, "away"};
    if (!refusal_.ok()) return client::ToGrpc(refusal_);
    told_ = request->ShortDebugString();
    changed_.NotifyAll();
    return grpc::Status::OK;
  }
  std::string AwaitTold() {
    MutexLock lock(mu_);
    while (told_.empty()) changed_.Wait(mu_);
    return told_;
  }
  std::string told() {
    MutexLock lock(mu_);
    return told_;
  }
  int calls() {
    MutexLock lock(mu_);
    return calls_;
  }

 private:
  const int absent_;
  const absl::Status refusal_;
  Mutex mu_;
  CondVar changed_;
  int calls_ DP_GUARDED_BY(mu_) = 0;
  std::string told_ DP_GUARDED_BY(mu_);
  // Last, so that the calls end first.
  client::InProcess server_{static_cast<v1::Worlds::Service&>(*this)};
  const std::unique_ptr<client::Connection> connection_ = server_.Connect();
};

const Environment kRank0 = {.job = JobId(7), .generation = Generation(2), .rank = 0};

TEST(FirstStepReportTest, TellsOnceThroughAnAbsence) {
  CountingWorlds worlds(/*absent=*/1);
  {
    FirstStepReport report(worlds.connection(), kRank0, Clock::System());
    report.Done();
    report.Done();
    EXPECT_EQ(worlds.AwaitTold(), "job: 7 generation: 2");
  }
  EXPECT_EQ(worlds.calls(), 2);
}

TEST(FirstStepReportTest, WithoutAStepNothingIsTold) {
  CountingWorlds worlds(/*absent=*/0);
  { FirstStepReport report(worlds.connection(), kRank0, Clock::System()); }
  EXPECT_EQ(worlds.calls(), 0);
}

TEST(FirstStepReportTest, WhoEndsWaitsUntilTheStepIsTold) {
  CountingWorlds worlds(/*absent=*/1);
  FirstStepReport report(worlds.connection(), kRank0, Clock::System());
  report.Done();
  EXPECT_TRUE(report.AwaitTold(absl::InfiniteDuration()));
  EXPECT_EQ(worlds.told(), "job: 7 generation: 2");
}

TEST(FirstStepReportTest, ForACoordinatorThatStaysAwayNobodyWaitsLonger) {
  CountingWorlds worlds(/*absent=*/1000000);
  FirstStepReport report(worlds.connection(), kRank0, Clock::System());
  report.Done();
  EXPECT_FALSE(report.AwaitTold(absl::Milliseconds(1)));
}

TEST(FirstStepReportTest, WhatIsRefusedOrWasNotDoneIsNotWaitedFor) {
  CountingWorlds worlds(/*absent=*/0, absl::FailedPreconditionError("it is over"));
  FirstStepReport report(worlds.connection(), kRank0, Clock::System());
  EXPECT_TRUE(report.AwaitTold(absl::InfiniteDuration()));
  report.Done();
  EXPECT_TRUE(report.AwaitTold(absl::InfiniteDuration()));
  EXPECT_EQ(worlds.told(), "");
}

}  // namespace
}  // namespace dp::trainer
