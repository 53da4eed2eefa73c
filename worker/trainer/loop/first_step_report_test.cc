#include "worker/trainer/loop/first_step_report.h"

#include "base/mutex.h"
#include "gtest/gtest.h"

namespace dp::trainer {
namespace {

// A coordinator that is away for the first `absent` calls, or rejects all.
class CountingWorlds final : public client::WorldsConnection {
 public:
  explicit CountingWorlds(int absent, absl::Status refusal = {})
      : absent_(absent), refusal_(std::move(refusal)) {}

  absl::StatusOr<v1::CompleteFirstStepResponse> CompleteFirstStep(
      const v1::CompleteFirstStepRequest& request, absl::Duration) override {
    MutexLock lock(mu_);
    ++calls_;
    if (calls_ <= absent_) return absl::UnavailableError("away");
    if (!refusal_.ok()) return refusal_;
    told_ = request.ShortDebugString();
    changed_.NotifyAll();
    return v1::CompleteFirstStepResponse();
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

  absl::StatusOr<v1::JoinResponse> Join(const v1::JoinRequest&, absl::Duration) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<v1::WatchWorldResponse> WatchWorld(const v1::WatchWorldRequest&,
                                                    absl::Duration) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<v1::AccuseResponse> Accuse(const v1::AccuseRequest&, absl::Duration) override {
    return absl::UnimplementedError("");
  }

 private:
  const int absent_;
  const absl::Status refusal_;
  Mutex mu_;
  CondVar changed_;
  int calls_ DP_GUARDED_BY(mu_) = 0;
  std::string told_ DP_GUARDED_BY(mu_);
};

const Environment kRank0 = {.job = JobId(7), .generation = Generation(2), .rank = 0};

TEST(FirstStepReportTest, TellsOnceThroughAnAbsence) {
  CountingWorlds worlds(/*absent=*/1);
  {
    FirstStepReport report(worlds, kRank0, Clock::System());
    report.Done();
    report.Done();
    EXPECT_EQ(worlds.AwaitTold(), "job: 7 generation: 2");
  }
  EXPECT_EQ(worlds.calls(), 2);
}

TEST(FirstStepReportTest, WithoutAStepNothingIsTold) {
  CountingWorlds worlds(/*absent=*/0);
  { FirstStepReport report(worlds, kRank0, Clock::System()); }
  EXPECT_EQ(worlds.calls(), 0);
}

TEST(FirstStepReportTest, WhoEndsWaitsUntilTheStepIsTold) {
  CountingWorlds worlds(/*absent=*/1);
  FirstStepReport report(worlds, kRank0, Clock::System());
  report.Done();
  EXPECT_TRUE(report.AwaitTold(absl::InfiniteDuration()));
  EXPECT_EQ(worlds.told(), "job: 7 generation: 2");
}

TEST(FirstStepReportTest, ForACoordinatorThatStaysAwayNobodyWaitsLonger) {
  CountingWorlds worlds(/*absent=*/1000000);
  FirstStepReport report(worlds, kRank0, Clock::System());
  report.Done();
  EXPECT_FALSE(report.AwaitTold(absl::Milliseconds(1)));
}

TEST(FirstStepReportTest, WhatIsRefusedOrWasNotDoneIsNotWaitedFor) {
  CountingWorlds worlds(/*absent=*/0, absl::FailedPreconditionError("it is over"));
  FirstStepReport report(worlds, kRank0, Clock::System());
  EXPECT_TRUE(report.AwaitTold(absl::InfiniteDuration()));
  report.Done();
  EXPECT_TRUE(report.AwaitTold(absl::InfiniteDuration()));
  EXPECT_EQ(worlds.told(), "");
}

}  // namespace
}  // namespace dp::trainer
