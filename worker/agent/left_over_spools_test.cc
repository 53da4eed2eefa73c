#include "worker/agent/left_over_spools.h"

#include "base/testing/scratch_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/spool/log_spool.h"
#include "worker/agent/testing/fake_coordinator.h"

namespace dp::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

class LeftOverSpoolsTest : public ::testing::Test {
 protected:
  static RankKey Of(uint64_t job) { return {JobId(job), Generation(1), 0}; }
  void MakeSpool(uint64_t job) {
    ASSERT_TRUE(LogSpool(scratch_.path(), Of(job)).Create({absl::UnixEpoch(), {}}).ok());
  }
  std::vector<RankKey> OnDisk() const { return LogSpool::Find(scratch_.path()); }

  const ScratchDir scratch_;
  FakeCoordinator coordinator_;
  LogShipper shipper_{coordinator_.connection(), {.seed = 1}, [](const LogsNews&) {}};
};

TEST_F(LeftOverSpoolsTest, ThoseOfTheOldestJobsGoWhereThereAreTooMany) {
  for (const uint64_t job : {1, 2, 3}) MakeSpool(job);
  LeftOverSpools spools(scratch_.path(), /*max=*/2, shipper_);
  spools.FollowFound();
  EXPECT_THAT(spools.found(), ElementsAre(Of(2), Of(3)));
  EXPECT_THAT(OnDisk(), UnorderedElementsAre(Of(2), Of(3)));
  MakeSpool(4);
  spools.Add(Of(4));
  EXPECT_FALSE(spools.contains(Of(2)));
  EXPECT_THAT(OnDisk(), UnorderedElementsAre(Of(3), Of(4)));
}

TEST_F(LeftOverSpoolsTest, WhatIsDroppedIsGone) {
  MakeSpool(1);
  LeftOverSpools spools(scratch_.path(), /*max=*/2, shipper_);
  spools.FollowFound();
  spools.Drop(Of(1));
  EXPECT_FALSE(spools.contains(Of(1)));
  EXPECT_TRUE(OnDisk().empty());
}

}  // namespace
}  // namespace dp::worker
