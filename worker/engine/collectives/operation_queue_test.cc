#include "worker/engine/collectives/operation_queue.h"

#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/testing/settable_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::engine {
namespace {

using ::testing::HasSubstr;

class OperationQueueTest : public ::testing::Test {
 protected:
  // Pushes an operation that has begun on return and ends when the queue stops it.
  std::unique_ptr<Work> PushBlocked(const std::string& name) {
    auto work = queue_.Push(name, [this, name] {
      MutexLock lock(mu_);
      begun_ = true;
      changed_.NotifyAll();
      while (queue_.stop_reason().kind == StopReason::Kind::kNone) changed_.Wait(mu_);
      return queue_.StopError(name, {1});
    });
    MutexLock lock(mu_);
    while (!begun_) changed_.Wait(mu_);
    return work;
  }
  std::unique_ptr<Work> Push(const std::string& name) {
    return queue_.Push(name, [] { return absl::OkStatus(); });
  }
  void Wake() {
    MutexLock lock(mu_);
    changed_.NotifyAll();
  }

  SettableClock clock_;
  Mutex mu_;
  CondVar changed_;
  bool begun_ = false;
  OperationQueue queue_{{.timeout = absl::Seconds(30)}, [this] { Wake(); }, clock_};
};

TEST_F(OperationQueueTest, AnOperationPastItsDeadlineIsStopped) {
  auto blocked = PushBlocked("all_reduce 1");
  clock_.Advance(absl::Seconds(31));
  const absl::Status status = blocked->Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(status.message(), "all_reduce 1: rank 1 did not arrive within 30s");
}

TEST_F(OperationQueueTest, WhatStandsBehindAFailureFailsWithIt) {
  auto failed = queue_.Push("first", [] { return absl::UnavailableError("gone"); });
  EXPECT_EQ(Push("second")->Wait(), absl::UnavailableError("gone"));
}

TEST_F(OperationQueueTest, WhatBeginsAfterABreakFailsWithItsReason) {
  ASSERT_EQ(Push("first")->Wait(), absl::OkStatus());
  queue_.Break(absl::UnavailableError("a message failed"));
  queue_.Break(absl::UnavailableError("a later reason"));
  EXPECT_EQ(queue_.failure(), absl::UnavailableError("a message failed"));
  EXPECT_EQ(Push("second")->Wait(), absl::UnavailableError("a message failed"));
}

TEST(OperationQueueIntervalTest, AWaitWakesTheOperationNowAndThen) {
  Mutex mu;
  CondVar changed;
  int wakes = 0;
  OperationQueue queue(
      {.timeout = absl::Minutes(1)},
      [&] {
        MutexLock lock(mu);
        ++wakes;
        changed.NotifyAll();
      },
      Clock::Steady(), absl::Milliseconds(1));
  const auto work = queue.Push("all_reduce 1", [&] {
    MutexLock lock(mu);
    while (wakes < 3) changed.Wait(mu);
    return absl::OkStatus();
  });
  EXPECT_EQ(work->Wait(), absl::OkStatus());
}

TEST_F(OperationQueueTest, AFullQueueRefusesAndTheOperationUnderWayKeepsItsDeadline) {
  auto blocked = PushBlocked("all_reduce 1");
  std::vector<std::unique_ptr<Work>> waiting;
  do waiting.push_back(Push("more"));
  while (!waiting.back()->done());
  EXPECT_EQ(waiting.back()->Wait().code(), absl::StatusCode::kResourceExhausted);
  clock_.Advance(absl::Seconds(31));
  EXPECT_EQ(blocked->Wait().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(waiting.front()->Wait().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(OperationQueueTest, AbortTellsItsFirstReason) {
  auto blocked = PushBlocked("broadcast 1");
  queue_.Abort(absl::CancelledError("the job was cancelled"));
  queue_.Abort(absl::CancelledError("a later reason"));
  EXPECT_THAT(std::string(blocked->Wait().message()), HasSubstr("the job was cancelled"));
}

}  // namespace
}  // namespace dp::engine
