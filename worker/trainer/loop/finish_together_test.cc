#include "worker/trainer/loop/finish_together.h"

#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "worker/engine/collectives/local/local_group.h"

namespace dp::trainer {
namespace {

constexpr absl::Duration kOften = absl::Milliseconds(1);

// Runs FinishTogether on `ranks` ranks and returns each rank's result; `work` runs on rank 0.
std::vector<absl::Status> Finish(int ranks, const std::function<absl::Status()>& work) {
  const auto groups = engine::MakeLocalGroups(ranks);
  std::vector<absl::Status> ends(groups.size());
  std::vector<std::jthread> threads;
  for (size_t rank = 0; rank < groups.size(); ++rank) {
    threads.emplace_back([&, rank] { ends[rank] = FinishTogether(*groups[rank], kOften, work); });
  }
  threads.clear();
  return ends;
}

TEST(FinishTogetherTest, RankZeroAloneWorksAndNobodyLeavesBefore) {
  std::atomic<int> calls = 0;
  std::atomic<bool> done = false;
  const auto groups = engine::MakeLocalGroups(2);
  std::promise<void> others_wait;
  std::jthread zero([&] {
    EXPECT_TRUE(FinishTogether(*groups[0], kOften, [&] {
                  ++calls;
                  others_wait.get_future().wait();
                  done = true;
                  return absl::OkStatus();
                }).ok());
  });
  std::jthread one([&] {
    EXPECT_TRUE(FinishTogether(*groups[1], kOften, [] { return absl::OkStatus(); }).ok());
    EXPECT_TRUE(done);
  });
  others_wait.set_value();
  zero.join();
  EXPECT_EQ(calls, 1);
}

TEST(FinishTogetherTest, WhatWentWrongIsRankZerosAlone) {
  const auto ends = Finish(3, [] { return absl::ResourceExhaustedError("the disk is full"); });
  EXPECT_EQ(ends[0], absl::ResourceExhaustedError("the disk is full"));
  EXPECT_TRUE(ends[1].ok() && ends[2].ok());
}

TEST(FinishTogetherTest, ARankZeroThatStandsStillIsMissed) {
  const auto groups = engine::MakeLocalGroups(2, {.timeout = absl::Milliseconds(20)});
  // Rank 0 never joins the all-reduce.
  const absl::Status end = FinishTogether(*groups[1], kOften, [] { return absl::OkStatus(); });
  EXPECT_TRUE(absl::IsDeadlineExceeded(end)) << end;
}

TEST(FinishTogetherTest, APeerThatIsLostDoesNotKeepRankZeroFromItsWork) {
  auto groups = engine::MakeLocalGroups(2);
  std::promise<void> lost;
  bool done = false;
  std::jthread zero([&] {
    EXPECT_TRUE(FinishTogether(*groups[0], kOften, [&] {
                  lost.get_future().wait();
                  done = true;
                  return absl::OkStatus();
                }).ok());
  });
  groups[1].reset();
  lost.set_value();
  zero.join();
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace dp::trainer
