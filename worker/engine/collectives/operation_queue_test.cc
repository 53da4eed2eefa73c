#include "worker/engine/collectives/operation_queue.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
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

// An operation that does not return before the test lets it, out of a call of a foreign library.
class ForeignCallTest : public ::testing::Test {
 protected:
  ~ForeignCallTest() override { Return(); }

  std::unique_ptr<Work> PushHanging(const std::string& name, uint64_t call) {
    auto work = queue_->Push(name, [this, call] {
      MutexLock lock(mu_);
      call_ = call;
      begun_ = true;
      changed_.NotifyAll();
      while (!returns_) changed_.Wait(mu_);
      return absl::OkStatus();
    });
    MutexLock lock(mu_);
    while (!begun_) changed_.Wait(mu_);
    return work;
  }
  void Return() {
    MutexLock lock(mu_);
    returns_ = true;
    changed_.NotifyAll();
  }
  // A wake for a stop hangs as the operation does.
  void Hang() {
    MutexLock lock(mu_);
    while (!returns_) changed_.Wait(mu_);
  }
  // The call that the queue sees. It looks once a turn.
  uint64_t Look() {
    MutexLock lock(mu_);
    ++looks_;
    changed_.NotifyAll();
    return steps_ ? ++call_ : call_;
  }
  void AwaitTurns(int turns) {
    MutexLock lock(mu_);
    while (looks_ < turns) changed_.Wait(mu_);
  }

  Mutex mu_;
  CondVar changed_;
  bool begun_ = false;
  bool returns_ = false;
  uint64_t call_ = 0;
  bool steps_ = false;  // the operation enters the next call in each turn
  int looks_ = 0;
  std::optional<OperationQueue> queue_{
      std::in_place,
      GroupOptions{.timeout = absl::Milliseconds(10)},
      [this] { Hang(); },
      Clock::Steady(),
      absl::InfiniteDuration(),
      RunBy::kThread,
      ForeignCalls{.current = [this] { return Look(); }, .turn = absl::Milliseconds(1)}};
};

constexpr char kHangs[] =
    "; a call of this rank's transport does not return and may still use the operation's memory; "
    "end the process";

TEST_F(ForeignCallTest, AnOperationThatHangsInACallEndsForItsWaitersAfterTheDeadline) {
  const auto hanging = PushHanging("all_reduce 1", 7);
  const auto behind = queue_->Push("barrier 2", [] { return absl::OkStatus(); });
  const absl::Status status = hanging->Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(status.message(), absl::StrCat("all_reduce 1 did not end within 10ms", kHangs));
  EXPECT_EQ(behind->Wait(), status);
  EXPECT_EQ(queue_->Push("leave", [] { return absl::OkStatus(); })->Wait(), status);
}

TEST_F(ForeignCallTest, AnAbortEndsIt) {
  const auto hanging = PushHanging("broadcast 1", 7);
  queue_->Abort(absl::CancelledError("the job was cancelled"));
  const absl::Status status = hanging->Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(status.message(),
            absl::StrCat("broadcast 1 was aborted: the job was cancelled", kHangs));
}

TEST_F(ForeignCallTest, ItsLateReturnChangesNothing) {
  const auto hanging = PushHanging("all_reduce 1", 7);
  const absl::Status status = hanging->Wait();
  Return();
  queue_->Close();
  EXPECT_EQ(hanging->Wait(), status);
}

TEST_F(ForeignCallTest, AnOperationInNoCallIsAwaited) {
  const auto slow = PushHanging("all_reduce 1", 0);
  std::jthread waiter([&] { EXPECT_EQ(slow->Wait(), absl::OkStatus()); });
  AwaitTurns(100);
  EXPECT_FALSE(slow->done());
  Return();
}

TEST_F(ForeignCallTest, AnOperationThatEntersNewCallsIsAwaited) {
  steps_ = true;
  const auto slow = PushHanging("all_reduce 1", 1);
  std::jthread waiter([&] { EXPECT_EQ(slow->Wait(), absl::OkStatus()); });
  AwaitTurns(100);
  EXPECT_FALSE(slow->done());
  Return();
}

// A queue whose operations run on the threads that wait for them.
class RunByWaiterTest : public ::testing::Test {
 protected:
  RunByWaiterTest() : RunByWaiterTest(absl::Seconds(30)) {}
  explicit RunByWaiterTest(absl::Duration timeout)
      : queue_(
            {.timeout = timeout}, [this] { Wake(); }, Clock::Steady(), absl::InfiniteDuration(),
            RunBy::kWaiter) {}

  void Wake() {
    MutexLock lock(mu_);
    changed_.NotifyAll();
  }
  // An operation that ends when `go_` is set, or the queue stops it.
  std::unique_ptr<Work> PushBlocked(const std::string& name) {
    return queue_.Push(name, [this, name] {
      MutexLock lock(mu_);
      begun_ = true;
      changed_.NotifyAll();
      while (!go_ && queue_.stop_reason().kind == StopReason::Kind::kNone) changed_.Wait(mu_);
      return go_ ? absl::OkStatus() : queue_.StopError(name, {1});
    });
  }
  void AwaitBegun() {
    MutexLock lock(mu_);
    while (!begun_) changed_.Wait(mu_);
  }
  void Go() {
    MutexLock lock(mu_);
    go_ = true;
    changed_.NotifyAll();
  }
  std::unique_ptr<Work> PushNoting(std::vector<std::thread::id>& threads) {
    return queue_.Push("noting", [&] {
      threads.push_back(std::this_thread::get_id());
      return absl::OkStatus();
    });
  }

  Mutex mu_;
  CondVar changed_;
  bool begun_ = false;
  bool go_ = false;
  OperationQueue queue_;
};

TEST_F(RunByWaiterTest, AWaiterRunsWhatHasNotBegunAndNothingElse) {
  std::vector<std::thread::id> threads;
  const auto blocked = PushBlocked("first");
  AwaitBegun();  // on the queue's thread
  const auto second = PushNoting(threads), third = PushNoting(threads);
  std::jthread go([this] { Go(); });
  EXPECT_EQ(third->Wait(), absl::OkStatus());
  EXPECT_TRUE(second->done());
  EXPECT_EQ(blocked->Wait(), absl::OkStatus());
  ASSERT_EQ(threads.size(), 2);
  EXPECT_NE(threads[0], std::this_thread::get_id());  // nobody waited for it
}

TEST_F(RunByWaiterTest, TheWaiterMostlyWinsARaceWithTheQueuesThread) {
  std::vector<std::thread::id> threads;
  // The thread has to wake first; once in so many times it is slower at least.
  for (int i = 0; i < 10'000; ++i) {
    EXPECT_EQ(PushNoting(threads)->Wait(), absl::OkStatus());
    if (threads.back() == std::this_thread::get_id()) return;
  }
  FAIL() << "the queue's thread has run all operations";
}

TEST_F(RunByWaiterTest, AnAbortEndsWhatTheWaiterRuns) {
  const auto blocked = PushBlocked("all_reduce 1");
  std::jthread abort([this] {
    AwaitBegun();
    queue_.Abort(absl::CancelledError("the job was cancelled"));
  });
  EXPECT_THAT(std::string(blocked->Wait().message()), HasSubstr("the job was cancelled"));
}

TEST_F(RunByWaiterTest, CloseAwaitsWhatAWaiterRuns) {
  const auto blocked = PushBlocked("all_reduce 1");
  std::jthread waiter([&] { EXPECT_EQ(blocked->Wait().code(), absl::StatusCode::kAborted); });
  AwaitBegun();
  queue_.Close();
  EXPECT_TRUE(blocked->done());
}

class ShortRunByWaiterTest : public RunByWaiterTest {
 protected:
  ShortRunByWaiterTest() : RunByWaiterTest(absl::Milliseconds(20)) {}
};

// Whoever runs them: the queue's thread notices the deadlines, also after it has slept since the
// operation before.
TEST_F(ShortRunByWaiterTest, DeadlinesHold) {
  std::vector<std::thread::id> threads;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(PushNoting(threads)->Wait(), absl::OkStatus());
  const absl::Status status = PushBlocked("all_reduce 1")->Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(status.message(), "all_reduce 1: rank 1 did not arrive within 20ms");
}

}  // namespace
}  // namespace dp::engine
