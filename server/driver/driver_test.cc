#include "server/driver/testing/driver_fixture.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "base/testing/notify_listener.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(DriverTest, ACommandIsDurableBeforeItIsAnsweredAndWatchersWakeLast) {
  Start();
  journal_.events.clear();
  std::future<Wake> waiting = WaitForJobs(driver_->NewTicket(), 1);
  Look();  // the wait is parked
  ASSERT_TRUE(Submit(AJob("a")).get().ok());
  EXPECT_EQ(waiting.get(), Wake::kChanged);
  driver_->Stop();
  EXPECT_THAT(journal_.events, ElementsAre("synced 1", "answered", "woken"));
}

TEST_F(DriverTest, CommandsThatArriveDuringASyncShareTheNextOne) {
  Start();
  auto gate = HoldNextSync(AJob("a"));
  auto b = Submit(AJob("b"));
  auto c = Submit(AJob("c"));
  gate->set_value();
  EXPECT_TRUE(b.get().ok());
  EXPECT_TRUE(c.get().ok());
  driver_->Stop();
  EXPECT_THAT(journal_.events,
              ElementsAre("synced 1", "synced 1", "answered", "synced 2", "answered", "answered"));
}

TEST_F(DriverTest, AQueryNeverSeesWhatIsNotDurable) {
  Start();
  auto gate = HoldNextSync(AJob("a"));
  std::promise<size_t> seen;
  ASSERT_TRUE(driver_
                  ->Ask([&](const absl::Status&, const View& view) {
                    journal_.events.push_back("asked");
                    seen.set_value(view.coordinator.jobs().size());
                  })
                  .ok());
  gate->set_value();
  EXPECT_EQ(seen.get_future().get(), 1u);
  driver_->Stop();
  EXPECT_THAT(journal_.events, ElementsAre("synced 1", "synced 1", "answered", "asked"));
}

TEST_F(DriverTest, ARepetitionIsAnsweredWithoutASync) {
  Start();
  ASSERT_TRUE(Submit(AJob("a")).get().ok());
  const size_t syncs = journal_.memory.syncs();
  ASSERT_TRUE(Submit(AJob("a")).get().ok());
  driver_->Stop();
  EXPECT_EQ(journal_.memory.syncs(), syncs);
}

TEST_F(DriverTest, AFailingJournalEndsTheDriverAndNobodyIsToldOfSuccess) {
  Start();
  std::future<Wake> waiting = WaitForJobs(driver_->NewTicket(), 1);
  Look([&](const View&) { journal_.memory.FailWith(absl::InternalError("disk on fire")); });
  const absl::Status told = Submit(AJob("a")).get();
  EXPECT_EQ(told.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(told.message(),
            "the coordinator is stopping: its journal failed: disk on fire; whether the command "
            "took effect is not known");
  EXPECT_EQ(waiting.get(), Wake::kStopping);
  EXPECT_THAT(std::string(ended_.get_future().get().message()), HasSubstr("disk on fire"));
  // Later calls report the reason too.
  const absl::Status late = Submit(AJob("b")).get();
  EXPECT_EQ(late.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(late.message(), "the coordinator is stopping: its journal failed: disk on fire");
  EXPECT_THAT(journal_.events, ::testing::Contains("sync failed").Times(1));
}

TEST_F(DriverTest, AFullQueueRefusesInsteadOfBlocking) {
  Start({.queue_capacity = 2});
  auto gate = HoldNextSync(AJob("a"));
  auto b = Submit(AJob("b"));
  auto c = Submit(AJob("c"));
  EXPECT_EQ(Submit(AJob("d")).get().code(), absl::StatusCode::kUnavailable);
  gate->set_value();
  EXPECT_TRUE(b.get().ok());
  EXPECT_TRUE(c.get().ok());
}

TEST_F(DriverTest, RequestsOfManyBytesFillTheQueueToo) {
  Start({.queue_bytes_max = 1000});
  const auto a_job_of = [](const std::string& name, size_t bytes) {
    core::SubmitJob job = AJob(name);
    job.spec.payload = std::string(bytes, 'x');
    return job;
  };
  auto gate = HoldNextSync(a_job_of("a", 400));
  auto b = Submit(a_job_of("b", 500));
  EXPECT_EQ(Submit(a_job_of("c", 500)).get().code(), absl::StatusCode::kUnavailable);
  auto small = Submit(AJob("d"));
  gate->set_value();
  EXPECT_TRUE(b.get().ok());
  EXPECT_TRUE(small.get().ok());
  Look();  // the bytes of these are free again
  EXPECT_TRUE(Submit(a_job_of("e", 5000)).get().ok());
}

TEST_F(DriverTest, AnIdleLoopShowsLifeAsOftenAsItsWatchdogWants) {
  NotifyListener manager;
  NotifySocket notify(manager.name(), /*watchdog=*/absl::Milliseconds(3));
  Start({.lease = absl::Hours(1), .notify = &notify});
  EXPECT_EQ(manager.Await(), "WATCHDOG=1");
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(manager.Await(), "WATCHDOG=1");
  driver_->Stop();
}

TEST_F(DriverTest, ALoopThatHangsInTheJournalShowsNoLife) {
  NotifyListener manager;
  NotifySocket notify(manager.name(), /*watchdog=*/absl::Milliseconds(3));
  Start({.notify = &notify});
  EXPECT_EQ(manager.Await(), "WATCHDOG=1");
  auto gate = HoldNextSync(AJob("a"));
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(manager.Next(), "");
  gate->set_value();
  EXPECT_EQ(manager.Await(), "WATCHDOG=1");
  driver_->Stop();
}

TEST_F(DriverTest, AJobIsPlacedInTheBatchThatMakesRoomForIt) {
  Start();
  ASSERT_TRUE(Submit(AJob("a", /*ranks=*/2)).get().ok());
  Look([](const View& view) {
    EXPECT_EQ(view.waiting.size(), 1u);
    EXPECT_EQ(view.coordinator.job(JobId(1))->state, core::JobState::kPending);
  });
  ASSERT_TRUE(Submit(AWorker()).get().ok());
  Look([](const View& view) {
    EXPECT_TRUE(view.waiting.empty());
    EXPECT_EQ(view.coordinator.job(JobId(1))->state, core::JobState::kStarting);
  });
  driver_->Stop();
  EXPECT_EQ(journal_.events.at(journal_.events.size() - 2), "synced 2");
}

TEST_F(DriverTest, ASilentWorkerIsLostWhenItsLeaseHasRunOut) {
  Start({.lease = absl::Seconds(8)});
  ASSERT_TRUE(Submit(AWorker()).get().ok());
  for (int look = 0; look < 4; ++look) {
    clock_.Advance(absl::Seconds(3));
    Look();
  }
  Look([](const View& view) {
    EXPECT_EQ(view.coordinator.worker(WorkerId(1))->state, core::WorkerState::kLost);
  });
}

TEST_F(DriverTest, ARankThatRunsAndDoesNotJoinIsGivenUpWhenItsTimeHasRunOut) {
  Start({.lease = absl::Seconds(8)});
  ASSERT_TRUE(Submit(AWorker()).get().ok());
  core::SubmitJob job = AJob("a");
  job.spec.join_within = absl::Seconds(9);
  ASSERT_TRUE(Submit(job).get().ok());
  const RankKey rank{JobId(1), Generation(1), 0};
  ASSERT_TRUE(Submit(core::ReportRank{WorkerId(1), Incarnation(1), rank}).get().ok());
  clock_.Advance(Driver::kLookSoon);  // the time begins at LateRanks' next look
  for (int look = 0; look < 3; ++look) {
    Look([](const View& view) {
      EXPECT_EQ(view.coordinator.job(JobId(1))->state, core::JobState::kStarting);
    });
    clock_.Advance(absl::Seconds(3));
    ASSERT_TRUE(driver_->Hear(WorkerId(1), Incarnation(1), [](const auto&, const View&) {}).ok());
  }
  Look();
  Look([](const View& view) {
    EXPECT_EQ(view.coordinator.job(JobId(1))->state, core::JobState::kStopping);
  });
}

TEST_F(DriverTest, OfARankThatIsMissedItIsNotedWhetherItsWorkerIsSilent) {
  Start({.lease = absl::Seconds(8)});
  ASSERT_TRUE(Submit(AWorker()).get().ok());
  ASSERT_TRUE(Submit(AJob("a", 2)).get().ok());
  for (const int rank : {0, 1}) {
    ASSERT_TRUE(Submit(core::JoinWorld{{JobId(1), Generation(1), rank}}).get().ok());
  }
  clock_.Advance(absl::Seconds(5));
  ASSERT_TRUE(Submit(core::AccusePeers{{JobId(1), Generation(1), 0}, {1}, "rank 1 did not arrive"})
                  .get()
                  .ok());
  Look([](const View& view) {
    EXPECT_EQ(view.coordinator.job(JobId(1))->failure->failure_class, core::FailureClass::kInfra);
  });
}

TEST_F(DriverTest, AForgottenJobTakesAllThatIsKeptOfItWithIt) {
  const size_t kept = core::JobRegistry::kFinishedMax;
  std::vector<core::Command> past;
  for (size_t job = 1; job <= kept; ++job) {
    past.push_back({clock_.Now(), AJob("past " + std::to_string(job))});
    past.push_back({clock_.Now(), core::CancelJob{JobId(job)}});
  }
  ASSERT_TRUE(journal_.memory.Append(past).ok());
  std::vector<std::vector<JobId>> told;
  Start({.on_forgotten = [&](const std::vector<JobId>& jobs) {
    told.push_back(jobs);
    return told.size() > 1;  // the first time there is no room
  }});
  ASSERT_TRUE(driver_->TellLogs(JobId(1), 1, [](const absl::Status&, const View&) {}).ok());
  ASSERT_TRUE(Submit(AJob("last")).get().ok());
  Look([](const View& view) { EXPECT_EQ(view.log_versions.size(), 1u); });
  ASSERT_TRUE(Submit(core::CancelJob{JobId(kept + 1)}).get().ok());
  ASSERT_TRUE(driver_->TellLogs(JobId(1), 2, [](const absl::Status&, const View&) {}).ok());
  Look([](const View& view) { EXPECT_TRUE(view.log_versions.empty()); });
  driver_->Stop();
  EXPECT_THAT(told, ElementsAre(ElementsAre(JobId(1)), ElementsAre(JobId(1))));
  told.clear();
  driver_.reset();
  ended_ = {};
  Start({.on_forgotten =
             [&](const std::vector<JobId>& jobs) {
               told.push_back(jobs);
               return true;
             },
         .logged = {JobId(1), JobId(2)}});
  Look();
  driver_->Stop();
  EXPECT_THAT(told, ElementsAre(ElementsAre(JobId(1))));
}

TEST_F(DriverTest, LogsThatWereSetAsideAreNotForgottenSinceNewJobsTakeTheirNumbers) {
  std::vector<JobId> aside;
  Start({.on_forgotten =
             [](const std::vector<JobId>&) {
               ADD_FAILURE() << "told of forgotten jobs";
               return true;
             },
         .logged = {JobId(1)},
         .set_logs_aside =
             [&](const std::vector<JobId>& jobs) {
               aside = jobs;
               return absl::OkStatus();
             }});
  EXPECT_THAT(aside, ElementsAre(JobId(1)));
  ASSERT_TRUE(Submit(AJob("new")).get().ok());
  driver_->Stop();
}

TEST_F(DriverTest, ANewJournalBesideLogsOfJobsIsRefusedAndTheyAreNotForgotten) {
  const auto never = [](const std::vector<JobId>&) {
    ADD_FAILURE() << "told of forgotten jobs";
    return true;
  };
  const auto driver = Driver::Start({.on_forgotten = never, .logged = {JobId(1)}}, journal_, clock_,
                                    [](const absl::Status&) {});
  EXPECT_EQ(driver.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(journal_.memory.syncs(), 0u);
}

TEST_F(DriverTest, AJournalWithARecordThatIsRefusedNowIsNotReplayed) {
  const std::vector<core::Command> stale = {{clock_.Now(), core::CancelJob{JobId(7)}}};
  ASSERT_TRUE(journal_.memory.Append(stale).ok());
  const auto driver = Driver::Start({}, journal_, clock_, [](const absl::Status&) {});
  EXPECT_EQ(driver.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(driver.status().message()), HasSubstr("record 0 of the journal"));
}

TEST_F(DriverTest, EachEventOfAJobIsOneLineOfTheLog) {
  testing::internal::CaptureStderr();
  Start();
  ASSERT_TRUE(Submit(AWorker()).get().ok());
  ASSERT_TRUE(Submit(AJob("mnist")).get().ok());
  ASSERT_TRUE(Submit(core::JoinWorld{{JobId(1), Generation(1), 0}}).get().ok());
  ASSERT_TRUE(Submit(core::LeaveWorker{WorkerId(1), Incarnation(1)}).get().ok());
  ASSERT_TRUE(Submit(core::LoseWorker{WorkerId(1), Incarnation(1), "silent"}).get().ok());
  driver_->Stop();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("event=worker_registered worker=w id=1 host=host slots=2\n"));
  EXPECT_THAT(log, HasSubstr("event=job_submitted job=1 name=mnist ranks=1\n"));
  EXPECT_THAT(log, HasSubstr("event=job_placed job=1 generation=1 ranks=1 waited=0\n"));
  EXPECT_THAT(log, HasSubstr("event=world_sealed job=1 generation=1 size=1 waited=0\n"));
  EXPECT_THAT(log, HasSubstr("event=worker_leaving worker=w\n"));
  EXPECT_THAT(log, HasSubstr("event=worker_lost worker=w reason=silent\n"));
  EXPECT_THAT(log, HasSubstr("event=job_ended job=1 state=failed class=infra reason="));
}

TEST_F(DriverTest, TheLogSaysWhoRemovedWhichJob) {
  testing::internal::CaptureStderr();
  Start();
  for (const char* name : {"mnist", "gpt"}) ASSERT_TRUE(Submit(AJob(name)).get().ok());
  for (const uint64_t job : {1, 2}) ASSERT_TRUE(Submit(core::CancelJob{JobId(job)}).get().ok());
  const core::ForgetJob asked{.job = JobId(1), .user = "ann"};
  ASSERT_TRUE(Submit(asked).get().ok());
  ASSERT_TRUE(Submit(asked).get().ok());  // a no-op
  ASSERT_TRUE(Submit(core::ForgetJob{JobId(2)}).get().ok());
  driver_->Stop();
  const std::string log = testing::internal::GetCapturedStderr();
  const size_t line = log.find("event=job_removed job=1 name=mnist user=ann\n");
  ASSERT_NE(line, std::string::npos) << log;
  EXPECT_EQ(log.find("event=job_removed", line + 1), std::string::npos) << log;
  EXPECT_THAT(log, HasSubstr("event=job_forgotten job=2 name=gpt\n"));
}

TEST_F(DriverTest, AWorkerThatLeavesIsGivenNoNewRanksAndKeepsItsLease) {
  Start({.lease = absl::Seconds(8)});
  ASSERT_TRUE(Submit(AWorker()).get().ok());
  for (int beat = 0; beat < 4; ++beat) {
    clock_.Advance(absl::Seconds(3));
    ASSERT_TRUE(Submit(core::LeaveWorker{WorkerId(1), Incarnation(1)}).get().ok());
  }
  ASSERT_TRUE(Submit(AJob("a")).get().ok());
  Look([](const View& view) {
    EXPECT_TRUE(view.coordinator.worker(WorkerId(1))->ready());
    EXPECT_EQ(view.coordinator.job(JobId(1))->state, core::JobState::kPending);
  });
}

TEST_F(DriverTest, ARestartBringsTheStateBackInANewEpoch) {
  Start();
  const Epoch first = EpochNow();
  ASSERT_TRUE(Submit(AJob("a")).get().ok());
  ASSERT_TRUE(Submit(AWorker()).get().ok());
  driver_.reset();
  ended_ = {};
  Start();
  Look([&](const View& view) {
    EXPECT_GT(view.coordinator.epoch(), first);
    EXPECT_EQ(view.coordinator.jobs().size(), 1u);
    EXPECT_TRUE(view.coordinator.worker(WorkerId(1))->ready());
  });
}

TEST_F(DriverTest, ALongTailBecomesASnapshotFromWhichARestartGoesOn) {
  Start({.snapshots = {.commands = 3}});
  const Epoch first = EpochNow();
  ASSERT_TRUE(Submit(AJob("a")).get().ok());
  ASSERT_TRUE(Submit(AWorker()).get().ok());
  ASSERT_TRUE(Submit(AJob("b")).get().ok());
  driver_.reset();
  ASSERT_TRUE(journal_.memory.snapshot().has_value());
  EXPECT_LT(journal_.memory.commands().size(), 3u);
  const absl::Time last = clock_.Now();
  clock_.Advance(absl::Seconds(-100));
  ended_ = {};
  Start();
  Look([&](const View& view) {
    EXPECT_GT(view.coordinator.epoch(), first);
    EXPECT_EQ(view.coordinator.jobs().size(), 2u);
    EXPECT_TRUE(view.coordinator.worker(WorkerId(1))->ready());
    EXPECT_EQ(view.now, last);  // does not go back
  });
}

TEST_F(DriverTest, UpkeepOfTheJournalThatFailsEndsTheDriver) {
  Start();
  Look([&](const View&) { journal_.maintained = absl::InternalError("disk on fire"); });
  EXPECT_THAT(std::string(ended_.get_future().get().message()), HasSubstr("disk on fire"));
  EXPECT_EQ(Submit(AJob("b")).get().code(), absl::StatusCode::kUnavailable);
}

TEST_F(DriverTest, TimeNeverGoesBackInTheJournal) {
  Start();
  ASSERT_TRUE(Submit(AJob("a")).get().ok());
  clock_.Advance(absl::Seconds(-100));
  ASSERT_TRUE(Submit(AJob("b")).get().ok());
  driver_->Stop();
  const auto& commands = journal_.memory.commands();
  EXPECT_TRUE(std::is_sorted(commands.begin(), commands.end(),
                             [](auto& a, auto& b) { return a.at < b.at; }));
}

}  // namespace
}  // namespace dp::server
