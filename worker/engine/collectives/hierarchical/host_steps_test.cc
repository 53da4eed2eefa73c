#include "worker/engine/collectives/hierarchical/host_steps.h"

#include <utility>
#include <vector>

#include "base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/collectives/ended_work.h"
#include "worker/engine/collectives/failure.h"

namespace dp::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A group whose operations end at once, and which notes them.
class EndedGroup : public Group {
 public:
  int rank() const override { return 0; }
  int size() const override { return 4; }
  std::unique_ptr<Work> Start(Collective call) override {
    calls.push_back(std::move(call));
    return std::make_unique<EndedWork>(status);
  }
  std::unique_ptr<Work> Pass(const Message&) override { return nullptr; }
  std::unique_ptr<Work> Leave() override { return nullptr; }
  void Abort(const absl::Status&) override {}

  absl::Status status;
  std::vector<Collective> calls;
};

// Rank 0, which shares a host with ranks 1 and 2.
class HostStepsTest : public ::testing::Test {
 protected:
  HostStepsTest() {
    self_.plan = &plan_;
    self_.local = &local_;
    self_.between = &between_;
    for (auto& memory : memory_) {
      memory.resize(StagingArea::BytesFor(4));
      self_.staging.emplace_back(memory.data());
    }
  }

  HostSteps Steps(absl::Duration timeout = absl::Minutes(1)) {
    return HostSteps(self_, "all_reduce", 7, Clock::Steady().Now() + timeout);
  }
  void SetDeadlineOf(int rank, absl::Duration left) {
    self_.staging[rank].SetDeadline(Clock::SinceBoot() + left);
  }

  const HostPlan plan_{{0, 0, 0, 1}};
  std::vector<uint8_t> memory_[3];
  EndedGroup local_, between_;
  HostRank self_;
};

const absl::Status kPeerLeft = WentAway("all_reduce 7", {2});

TEST_F(HostStepsTest, RanksForWhichAPeerGaveUpAreNamed) {
  local_.status = kPeerLeft;
  self_.staging[2].GiveUp({1, 3});
  const absl::Status status = Steps().MeetOnHost();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(MissingRanks(status), ElementsAre(1, 3));
  EXPECT_THAT(between_.calls, IsEmpty());
}

TEST_F(HostStepsTest, ARankForWhichAPeerGaveUpDoesNotNameItself) {
  local_.status = kPeerLeft;
  self_.staging[2].GiveUp({0});
  const absl::Status status = Steps().MeetOnHost();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(MissingRanks(status), IsEmpty());
}

TEST_F(HostStepsTest, APeerThatLeavesBecauseOfADeathIsNotNamed) {
  local_.status = kPeerLeft;
  between_.status = WentAway("all_reduce 7", {3});
  EXPECT_EQ(Steps().MeetOnHost(), between_.status);
  EXPECT_THAT(between_.calls, SizeIs(1));
}

TEST_F(HostStepsTest, APeerThatLeavesBecauseCallsDifferIsNotNamed) {
  local_.status = kPeerLeft;
  between_.status = absl::InvalidArgumentError("rank 0 calls barrier, rank 2 calls gather");
  EXPECT_EQ(Steps().MeetOnHost(), between_.status);
  EXPECT_LT(between_.calls.back().timeout, absl::Seconds(10));
  self_.staging[2].NoteDifference();
  EXPECT_EQ(Steps().MeetOnHost(), between_.status);
  EXPECT_GT(between_.calls.back().timeout, absl::Seconds(10));  // rank 0 tells sooner or later
}

TEST_F(HostStepsTest, AMeetingStatesThePiecesOfAnExchange) {
  SetDeadlineOf(1, absl::Hours(1));
  SetDeadlineOf(2, absl::Hours(1));
  std::vector<uint8_t> piece(7);
  Collective call{.shape = {.kind = CallShape::Kind::kExchange}};
  call.sent = {{}, {}, {}, piece};
  call.received.resize(4);
  HostSteps steps = Steps();
  ASSERT_EQ(steps.MeetEverybody(call), absl::OkStatus());
  EXPECT_TRUE(between_.calls.back().only_meets);
  EXPECT_THAT(PieceSizesOf(between_.calls.back()).sent, ElementsAre(0, 0, 0, 7));
  EXPECT_THAT(PieceSizesOf(between_.calls.back()).expected, ElementsAre(0, 0, 0, 0));
}

TEST_F(HostStepsTest, APeerThatLeavesWithoutAReasonIsNamed) {
  local_.status = kPeerLeft;
  EXPECT_EQ(Steps().MeetOnHost(), kPeerLeft);
}

TEST_F(HostStepsTest, AfterTheMeetingTheEarliestDeadlineOfTheHostHolds) {
  SetDeadlineOf(1, absl::Seconds(20));
  SetDeadlineOf(2, absl::Seconds(40));
  HostSteps steps = Steps();
  ASSERT_EQ(steps.MeetEverybody({}), absl::OkStatus());
  EXPECT_GT(between_.calls.back().timeout, absl::Seconds(40));
  (void)steps.Between({}, {});
  EXPECT_LE(between_.calls.back().timeout, absl::Seconds(20));
}

TEST_F(HostStepsTest, ALaterDeadlineOfAPeerChangesNothing) {
  SetDeadlineOf(1, absl::Hours(1));
  SetDeadlineOf(2, absl::Hours(1));
  HostSteps steps = Steps(absl::Hours(-1));
  ASSERT_EQ(steps.MeetEverybody({}), absl::OkStatus());
  (void)steps.Between({}, {});
  EXPECT_LT(between_.calls.back().timeout, absl::ZeroDuration());
}

// A peer that waits for the other host gives up first, and says why.
TEST_F(HostStepsTest, WaitsForPeersOnTheHostEndAfterThoseBetweenHosts) {
  const HostSteps steps = Steps();
  ASSERT_EQ(steps.MeetOnHost(), absl::OkStatus());
  (void)steps.Between({}, {});
  EXPECT_GT(local_.calls.back().timeout, between_.calls.back().timeout);
}

}  // namespace
}  // namespace dp::engine
