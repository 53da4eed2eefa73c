#include <atomic>
#include <future>
#include <string>

#include "gmock/gmock.h"
#include "server/shell/driver_fixture.h"

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
  static core::StoreBatch AValue(size_t bytes) {
    core::StoreBatch batch;
    batch.job = JobId(1);
    batch.operations = {StoreSet{"key", std::string(bytes, 'x')}};
    return batch;
  }
  void ExpectRefused(const absl::Status& status, const std::string& reason) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(reason));
  }
  // Whether the driver still works.
  void ExpectRuns() { EXPECT_TRUE(Submit(core::RegisterWorker(AWorker())).get().ok()); }

  std::atomic<uint64_t> available_ = 100 * kMiB;
};

TEST_F(DriverDiskTest, BelowTheReserveNoJobIsTakenAndAllElseGoesOn) {
  StartOn({.submit_reserve = 10 * kMiB, .floor = kMiB});
  ASSERT_TRUE(Submit(AJobOf("a", 10)).get().ok());
  available_ = 9 * kMiB;
  ExpectRefused(Submit(AJobOf("b", 10)).get(), "the coordinator's disk has 9 MiB left");
  EXPECT_TRUE(Submit(AJobOf("a", 10)).get().ok());  // repeated: it has been taken
  EXPECT_TRUE(Submit(core::CancelJob{JobId(1)}).get().ok());
  available_ = 10 * kMiB;
  EXPECT_TRUE(Submit(AJobOf("b", 10)).get().ok());
}

TEST_F(DriverDiskTest, BelowTheFloorNoLargeValueIsTaken) {
  StartOn({.submit_reserve = 10 * kMiB, .floor = kMiB});
  ASSERT_TRUE(Submit(AJobOf("a", 10)).get().ok());
  available_ = kMiB - 1;
  ExpectRefused(Submit(AValue(2000)).get(), "takes large values");
  // The job has no store yet, which is another answer.
  EXPECT_FALSE(absl::IsResourceExhausted(Submit(AValue(100)).get()));
  available_ = kMiB;
  EXPECT_FALSE(absl::IsResourceExhausted(Submit(AValue(2000)).get()));
  ExpectRuns();
}

TEST_F(DriverDiskTest, WhatIsRefusedIsNotJournalled) {
  StartOn({.submit_reserve = 10 * kMiB});
  available_ = kMiB;
  const size_t before = journal_.memory.commands().size();
  ExpectRefused(Submit(AJobOf("b", 10)).get(), "make room");
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

TEST_F(DriverDiskTest, ALowDiskForgetsNoJob) {
  StartOn({.submit_reserve = 10 * kMiB});
  for (const char* name : {"a", "b"}) ASSERT_TRUE(Submit(AJobOf(name, 1000)).get().ok());
  ASSERT_TRUE(Submit(core::CancelJob{JobId(1)}).get().ok());
  available_ = kMiB;
  ExpectRefused(Submit(AJobOf("c", 1000)).get(), "make room");
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

TEST_F(DriverDiskTest, WhoeverWaitsLearnsWhatHasEndedTheDriver) {
  Start();
  std::promise<absl::Status> why;
  ASSERT_TRUE(driver_
                  ->Wait(driver_->NewTicket(), {JobList()}, absl::Seconds(60),
                         [&](Wake wake, const View& view) {
                           if (wake != Wake::kStopping) return false;
                           why.set_value(Driver::Ended(view.failure));
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
