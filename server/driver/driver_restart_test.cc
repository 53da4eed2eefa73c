// Tests the driver with policies that take time: restarts and their back-off, silent workers.

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>

#include "base/testing/settable_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/driver/driver.h"
#include "server/driver/testing/memory_journal.h"

namespace dp::server {
namespace {

using ::testing::HasSubstr;

// Each call returns when the driver has answered it.
class DriverRestartTest : public ::testing::Test {
 protected:
  void SetUp() override { Start(journal_); }
  void Start(Journal& journal) {
    driver_.reset();
    auto driver = Driver::Start({}, journal, clock_, [](const absl::Status&) {});
    ASSERT_TRUE(driver.ok()) << driver.status();
    driver_ = *std::move(driver);
  }
  core::Outcome Submit(core::Action action) {
    std::promise<core::Outcome> answer;
    EXPECT_TRUE(driver_
                    ->Submit(std::move(action), [&](const core::Outcome& outcome,
                                                    const View&) { answer.set_value(outcome); })
                    .ok());
    return answer.get_future().get();
  }
  void Look(std::function<void(const View&)> look) {
    std::promise<void> done;
    EXPECT_TRUE(driver_
                    ->Ask([&](const absl::Status&, const View& view) {
                      look(view);
                      done.set_value();
                    })
                    .ok());
    done.get_future().get();
  }
  // "pending, generation 1"
  std::string Job() {
    std::string told;
    Look([&](const View& view) {
      const core::Job& job = *view.coordinator.jobs().front();
      told = std::string(Name(job.state)) + ", generation " + job.generation.ToString();
    });
    return told;
  }
  core::Outcome Register(const std::string& name, uint64_t incarnation) {
    return Submit(core::RegisterWorker{name, name, "", Incarnation(incarnation), 1});
  }
  void Beat(uint64_t worker) {
    std::promise<void> done;
    EXPECT_TRUE(driver_
                    ->Hear(WorkerId(worker), Incarnation(worker),
                           [&](const absl::Status&, const View&) { done.set_value(); })
                    .ok());
    done.get_future().get();
  }
  void SubmitRestartable() {
    core::JobSpec spec{.name = "job", .ranks = 1, .joins_by_running = true};
    spec.restart = core::RestartLimits{.user = 9};
    Submit(core::SubmitJob{"request", spec});
  }
  // The job's only rank runs, fails and is released.
  void Fail(uint64_t generation) {
    using What = core::ReportRank::What;
    core::ReportRank report{WorkerId(1), Incarnation(1), {JobId(1), Generation(generation), 0}};
    report.exit = {core::Exit::How::kCode, 3};
    for (const What what : {What::kStarted, What::kExited, What::kReleased}) {
      report.what = what;
      EXPECT_EQ(Submit(report).status, absl::OkStatus());
    }
  }

  MemoryJournal journal_;
  SettableClock clock_;
  std::unique_ptr<Driver> driver_;  // last: its thread uses the others
};

TEST_F(DriverRestartTest, AFailedJobIsPlacedAgainInTheBatchInWhichItsLastRankIsGone) {
  Register("a", 1);
  SubmitRestartable();
  Fail(1);
  EXPECT_EQ(Job(), "starting, generation 2");
}

TEST_F(DriverRestartTest, ABackOffEndsWithoutAnyNews) {
  Register("a", 1);
  SubmitRestartable();
  Fail(1);
  Fail(2);
  EXPECT_EQ(Job(), "pending, generation 2");
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(Job(), "starting, generation 3");
}

TEST_F(DriverRestartTest, TimeGoesOnFromTheJournalsEndWhereTheClockIsBehindIt) {
  Register("a", 1);
  SubmitRestartable();
  Fail(1);
  Fail(2);
  clock_.Advance(-absl::Hours(24));
  Start(journal_);
  EXPECT_EQ(Job(), "pending, generation 2");
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(Job(), "starting, generation 3");
}

TEST_F(DriverRestartTest, AVerdictThatWasDueAtTheEndIsGivenAtTheStart) {
  Register("a", 1);
  SubmitRestartable();
  Fail(1);
  driver_.reset();
  const auto& all = journal_.commands();
  MemoryJournal cut({all.begin(), all.end() - 2});  // without the verdict and the placement
  Start(cut);
  EXPECT_EQ(Job(), "starting, generation 2");
  driver_.reset();
}

TEST_F(DriverRestartTest, AJournalThatKnowsFewerJobsThanThereAreLogsOfHasLostItsEnd) {
  SubmitRestartable();
  driver_.reset();
  const auto start = [this](uint64_t logged) {
    return Driver::Start({.logged = {JobId(logged)}}, journal_, clock_, [](const absl::Status&) {})
        .status();
  };
  const size_t commands = journal_.commands().size();
  const absl::Status status = start(2);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("logs of job 2, but the journal knows jobs up to 1"));
  EXPECT_EQ(journal_.commands().size(), commands);
  EXPECT_TRUE(start(1).ok());
}

TEST_F(DriverRestartTest, ADaemonThatComesBackTakesItsPlaceWhereAllOthersAreSilentToo) {
  for (uint64_t worker : {1, 2, 3, 4, 5}) Register("w" + std::to_string(worker), worker);
  for (int second = 0; second < 8; ++second) {
    clock_.Advance(absl::Seconds(1));
    Beat(1);
  }
  Look([](const View& view) { EXPECT_EQ(view.liveness.held_back(), 4u); });
  EXPECT_EQ(Register("w1", 11).status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Register("w2", 12).status, absl::OkStatus());
  Look([](const View& view) { EXPECT_TRUE(view.coordinator.workers()[4]->ready()); });
}

// Holds even if the coordinator was restarted meanwhile, and gives every worker time to return.
TEST_F(DriverRestartTest, ADaemonThatProvesItsPredecessorDeadTakesItsPlaceAtOnce) {
  Register("a", 1);
  SubmitRestartable();
  Start(journal_);
  core::RegisterWorker next{"a", "a", "", Incarnation(2), 1};
  EXPECT_EQ(Submit(next).status.code(), absl::StatusCode::kAlreadyExists);
  next.replaces = {Incarnation(1)};
  EXPECT_EQ(Submit(next).status, absl::OkStatus());
  EXPECT_EQ(Job(), "starting, generation 2");
  Look([](const View& view) {
    EXPECT_THAT(view.coordinator.jobs().front()->past.front().failure.message,
                HasSubstr("its daemon died and was started again"));
  });
  Start(journal_);
  EXPECT_EQ(Job(), "starting, generation 2");
  EXPECT_EQ(Submit(next).status, absl::OkStatus());
}

// Most others are silent at the same time, which says nothing about workers that shut down.
TEST_F(DriverRestartTest, AWorkerThatWasLeavingIsGivenUpInTimeAfterARestart) {
  for (uint64_t worker : {1, 2, 3}) Register("w" + std::to_string(worker), worker);
  for (uint64_t worker : {1, 2}) {
    ASSERT_TRUE(Submit(core::LeaveWorker{WorkerId(worker), Incarnation(worker)}).status.ok());
  }
  Start(journal_);
  for (int second = 0; second < 12; ++second) {
    clock_.Advance(absl::Seconds(1));
    Beat(3);
  }
  Look([](const View& view) {
    EXPECT_EQ(view.liveness.held_back(), 0u);
    EXPECT_FALSE(view.coordinator.worker(WorkerId(1))->ready());
    EXPECT_FALSE(view.coordinator.worker(WorkerId(2))->ready());
    EXPECT_TRUE(view.coordinator.worker(WorkerId(3))->ready());
  });
}

}  // namespace
}  // namespace dp::server
