#include <atomic>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "server/driver/testing/driver_fixture.h"

// The driver while the journal's disk has little room.

namespace dp::server {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;

class DriverDiskTest : public DriverTest {
 protected:
  void StartOn(const DiskLimits& limits) {
    Start({.disk = limits, .disk_available = [this] { return available_.load(); }});
  }
  static core::SubmitJob AJobOf(const std::string& name, uint64_t bytes) {
    core::SubmitJob submit = AJob(name);
    submit.spec.payload.assign(bytes, 'x');
    return submit;
  }
  // A batch on the store of job 1, by its only client, with the next sequence number.
  core::StoreBatch ABatch(std::vector<StoreOperation> operations) {
    core::StoreBatch batch{JobId(1), Generation(1), /*client=*/1, ++sequence_};
    batch.operations = std::move(operations);
    return batch;
  }
  core::StoreBatch AValue(size_t bytes) {
    return ABatch({StoreSet{"key", std::string(bytes, 'x')}});
  }
  // Places job 1, which has a store.
  void PlaceAJob() {
    ASSERT_TRUE(Submit(AWorker()).get().ok());
    ASSERT_TRUE(Submit(AJobOf("a", 10)).get().ok());
  }
  void ExpectRefused(const absl::Status& status, const std::string& reason) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(reason));
  }
  // Expects that the driver still works.
  void ExpectRuns() { EXPECT_TRUE(Submit(core::RegisterWorker(AWorker())).get().ok()); }

  std::atomic<uint64_t> available_ = 100 * kMiB;
  uint64_t sequence_ = 0;
};

TEST_F(DriverDiskTest, BelowTheReserveNoJobIsTakenAndAllElseGoesOn) {
  StartOn({.submit_reserve = 10 * kMiB, .floor = kMiB});
  ASSERT_TRUE(Submit(AJobOf("a", 10)).get().ok());
  available_ = 9 * kMiB;
  ExpectRefused(Submit(AJobOf("b", 10)).get(), "has 9 MiB left");
  EXPECT_TRUE(Submit(AJobOf("a", 10)).get().ok());  // repeated: it was accepted before
  EXPECT_TRUE(Submit(core::CancelJob{JobId(1)}).get().ok());
  available_ = 11 * kMiB;
  EXPECT_TRUE(Submit(AJobOf("b", 10)).get().ok());
}

TEST_F(DriverDiskTest, BelowTheFloorNoLargeValueIsTaken) {
  StartOn({.submit_reserve = 10 * kMiB, .floor = kMiB});
  PlaceAJob();
  available_ = kMiB - 1;
  ExpectRefused(Submit(AValue(2000)).get(), "these keys and values of a store");
  EXPECT_TRUE(Submit(AValue(100)).get().ok());
  core::StoreBatch read{JobId(1), Generation(1)};
  read.operations = {StoreGet{std::string(2000, 'k')}};
  EXPECT_TRUE(Submit(read).get().ok());
  available_ = 2 * kMiB;
  EXPECT_TRUE(Submit(AValue(2000)).get().ok());
  ExpectRuns();
}

TEST_F(DriverDiskTest, RoomThatTheJournalNeedsForEarlierWritesIsNotFree) {
  StartOn({.submit_reserve = 10 * kMiB, .floor = kMiB});
  PlaceAJob();
  available_ = 3 * kMiB;
  EXPECT_TRUE(Submit(AValue(2000)).get().ok());
  journal_.memory.SetBacklog(2 * kMiB + 1);
  ExpectRefused(Submit(AValue(2000)).get(), "these keys and values of a store");
  EXPECT_TRUE(Submit(AValue(100)).get().ok());
  journal_.memory.SetBacklog(0);
  EXPECT_TRUE(Submit(AValue(2000)).get().ok());
}

TEST_F(DriverDiskTest, KeysCountAsValuesDo) {
  StartOn({.floor = kMiB});
  PlaceAJob();
  available_ = kMiB - 1;
  const std::string key(600, 'k');
  ExpectRefused(Submit(ABatch({StoreAdd{key + "1", 1}, StoreAdd{key + "2", 1}})).get(), "above");
  EXPECT_TRUE(Submit(ABatch({StoreAdd{key + "1", 1}})).get().ok());
}

TEST_F(DriverDiskTest, ARelaysBatchIsSmallWhereTheCallsInItAre) {
  StartOn({.floor = kMiB});
  PlaceAJob();
  available_ = kMiB - 1;
  core::StoreBatch relayed;
  for (const char* rank : {"0", "1"}) {
    relayed.operations.push_back(StoreSet{rank, std::string(900, 'x')});
  }
  relayed = ABatch(std::move(relayed.operations));
  relayed.groups = {1, 1};
  EXPECT_TRUE(Submit(relayed).get().ok());
}

TEST_F(DriverDiskTest, WhatABatchHasTakenAlreadyNeedsRoomToo) {
  StartOn({.submit_reserve = 10 * kMiB});
  available_ = 13 * kMiB;  // for one spec of 1 MiB, which is written twice
  const auto gate = HoldNextSync(AJobOf("first", 10));
  auto taken = Submit(AJobOf("second", kMiB));
  auto refused = Submit(AJobOf("third", kMiB));
  gate->set_value();
  EXPECT_TRUE(taken.get().ok());
  ExpectRefused(refused.get(), "takes this job only above 14 MiB (--disk-reserve)");
  EXPECT_TRUE(Submit(AJobOf("third", kMiB)).get().ok());
}

TEST_F(DriverDiskTest, SmallValuesThatWouldFillTheDiskTogetherAreRefused) {
  StartOn({.floor = kMiB});
  PlaceAJob();
  available_ = 3000;
  const auto gate = HoldNextSync(AJobOf("b", 10));
  auto taken = Submit(AValue(1000));
  auto refused = Submit(AValue(1000));
  gate->set_value();
  EXPECT_TRUE(taken.get().ok());
  ExpectRefused(refused.get(), "free space there");
}

TEST_F(DriverDiskTest, WhatIsRefusedIsNotJournalled) {
  StartOn({.submit_reserve = 10 * kMiB});
  available_ = kMiB;
  const size_t before = journal_.memory.commands().size();
  ExpectRefused(Submit(AJobOf("b", 10)).get(), "free space there");
  driver_->Stop();
  EXPECT_EQ(journal_.memory.commands().size(), before);
}

TEST_F(DriverDiskTest, SpecsOfUnfinishedJobsAreBounded) {
  StartOn({.job_specs_bytes_max = 1000});
  ASSERT_TRUE(Submit(AJobOf("a", 600)).get().ok());
  ExpectRefused(Submit(AJobOf("b", 600)).get(), "--job-specs-bytes-max");
  EXPECT_TRUE(Submit(AJobOf("c", 400)).get().ok());
}

TEST_F(DriverDiskTest, JobsThatHaveEndedMakeRoomForSpecsTheOldestFirst) {
  StartOn({.job_specs_bytes_max = 1000});
  for (const uint64_t job : {1, 2}) {
    ASSERT_TRUE(Submit(AJobOf("job" + std::to_string(job), 400)).get().ok());
    ASSERT_TRUE(Submit(core::CancelJob{JobId(job)}).get().ok());
  }
  ASSERT_TRUE(Submit(AJobOf("next", 400)).get().ok());
  Look([](const View& view) {
    EXPECT_EQ(view.coordinator.job(JobId(1)), nullptr);
    EXPECT_NE(view.coordinator.job(JobId(2)), nullptr);
    EXPECT_NE(view.coordinator.job(JobId(3)), nullptr);
  });
}

TEST_F(DriverDiskTest, ASubmissionThatIsRefusedForgetsNoJob) {
  StartOn({.submit_reserve = 10 * kMiB, .job_specs_bytes_max = 1000});
  ASSERT_TRUE(Submit(AJobOf("ended", 400)).get().ok());
  ASSERT_TRUE(Submit(core::CancelJob{JobId(1)}).get().ok());
  core::SubmitJob wrong = AJobOf("wrong", 900);
  wrong.spec.ranks = 0;
  EXPECT_EQ(Submit(wrong).get().code(), absl::StatusCode::kInvalidArgument);
  available_ = kMiB;
  ExpectRefused(Submit(AJobOf("right", 900)).get(), "--disk-reserve");
  Look([](const View& view) { EXPECT_NE(view.coordinator.job(JobId(1)), nullptr); });
}

TEST_F(DriverDiskTest, AJobThatTheSubmissionWaitsForIsNotForgottenForIt) {
  StartOn({.job_specs_bytes_max = 1000});
  for (const uint64_t job : {1, 2}) {
    ASSERT_TRUE(Submit(AJobOf("job" + std::to_string(job), 400)).get().ok());
    ASSERT_TRUE(Submit(core::CancelJob{JobId(job)}).get().ok());
  }
  core::SubmitJob next = AJobOf("next", 700);
  next.spec.scheduling.after = {{JobId(1), /*must_succeed=*/false}};
  ExpectRefused(Submit(next).get(), "named in after hold 400 bytes");
  next.spec.payload.resize(400);
  ASSERT_TRUE(Submit(next).get().ok());
  Look([](const View& view) {
    EXPECT_NE(view.coordinator.job(JobId(1)), nullptr);
    EXPECT_EQ(view.coordinator.job(JobId(2)), nullptr);
  });
}

TEST_F(DriverDiskTest, ALowDiskForgetsNoJob) {
  StartOn({.submit_reserve = 10 * kMiB});
  for (const char* name : {"a", "b"}) ASSERT_TRUE(Submit(AJobOf(name, 1000)).get().ok());
  ASSERT_TRUE(Submit(core::CancelJob{JobId(1)}).get().ok());
  available_ = kMiB;
  ExpectRefused(Submit(AJobOf("c", 1000)).get(), "free space there");
  Look([](const View& view) {
    EXPECT_NE(view.coordinator.job(JobId(1)), nullptr);
    EXPECT_NE(view.coordinator.job(JobId(2)), nullptr);
  });
}

TEST_F(DriverDiskTest, ASnapshotWaitsForRoom) {
  Start({.snapshots = {.commands = 2, .bytes = 1}, .disk = {}, .disk_available = [this] {
           return available_.load();
         }});
  available_ = kMiB;
  ASSERT_TRUE(Submit(AJobOf("a", 10)).get().ok());
  ASSERT_TRUE(Submit(AJobOf("b", 10)).get().ok());
  Look([this](const View&) { EXPECT_FALSE(journal_.memory.snapshot().has_value()); });
  available_ = 100 * kMiB;
  ASSERT_TRUE(Submit(AJobOf("c", 10)).get().ok());
  Look([this](const View&) { EXPECT_TRUE(journal_.memory.snapshot().has_value()); });
}

TEST_F(DriverDiskTest, ASnapshotThatWouldFreeRoomIsTakenOnceThereIsRoomForIt) {
  constexpr uint64_t kNever = uint64_t{1} << 40;
  Start({.snapshots = {.commands = kNever, .bytes = kNever},
         .disk = {.job_specs_bytes_max = 1000},
         .disk_available = [this] { return available_.load(); }});
  available_ = kMiB;
  Look([this](const View&) { journal_.bytes = 50 * kMiB; });
  ASSERT_TRUE(Submit(AJobOf("a", 600)).get().ok());
  ASSERT_TRUE(Submit(core::CancelJob{JobId(1)}).get().ok());
  ASSERT_TRUE(Submit(AJobOf("b", 600)).get().ok());
  Look([this](const View&) { EXPECT_FALSE(journal_.memory.snapshot().has_value()); });
  available_ = 100 * kMiB;
  Look();
  Look([this](const View&) { EXPECT_TRUE(journal_.memory.snapshot().has_value()); });
}

TEST_F(DriverDiskTest, WhoeverWaitsLearnsWhatHasEndedTheDriver) {
  Start();
  std::promise<absl::Status> why;
  ASSERT_TRUE(driver_
                  ->Wait(driver_->NewTicket(), {JobList()}, absl::Seconds(60),
                         [&](Wake wake, const View& view) {
                           if (wake != Wake::kStopping) return false;
                           why.set_value(Unshared(Driver::Ended(view.failure)));
                           return true;
                         })
                  .ok());
  Look([&](const View&) { journal_.memory.FailWith(absl::ResourceExhaustedError("disk full")); });
  (void)Submit(AJobOf("a", 10)).get();
  EXPECT_EQ(why.get_future().get().message(),
            "the coordinator is stopping: its journal failed: disk full");
}

}  // namespace
}  // namespace dp::server
