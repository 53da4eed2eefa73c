#include "worker/agent/drain_end.h"

#include <optional>

#include "gtest/gtest.h"
#include "worker/agent/testing/fake_coordinator.h"

namespace dp::worker {
namespace {

constexpr char kReason[] = "its pod ends";

class DrainEndTest : public ::testing::Test {
 protected:
  ~DrainEndTest() override { coordinator_.CancelAll(); }

  // The coordinator hears this call after all earlier ones.
  void HearMarker() {
    v1::UndrainRequest marker;
    marker.set_worker("marker");
    // The answer does not matter.
    (void)coordinator_.connection().Call(&v1::Workers::Stub::Undrain, marker, absl::Seconds(5));
    EXPECT_EQ(coordinator_.NextHeard(), "undrain marker");
  }

  FakeCoordinator coordinator_;
  std::optional<DrainEnd> drain_end_{std::in_place, coordinator_.connection(), kReason,
                                     Clock::Steady(), 1};
};

TEST_F(DrainEndTest, TheDrainWithItsReasonIsEnded) {
  coordinator_.DrainWorker("host", kReason);
  drain_end_->Begin("host");
  EXPECT_EQ(coordinator_.NextHeard(), "undrain host");
}

TEST_F(DrainEndTest, ADrainForAnotherReasonStays) {
  coordinator_.DrainWorker("host", "new disks");
  drain_end_->Begin("host");
  drain_end_.reset();
  HearMarker();
}

TEST_F(DrainEndTest, ADrainThatAnOperatorSetsMeanwhileStays) {
  coordinator_.DrainWorker("host", kReason);
  coordinator_.DrainWorkerOnceListed("new disks");
  drain_end_->Begin("host");
  EXPECT_EQ(coordinator_.NextHeard(), "undrain refused: host");
  drain_end_.reset();
  HearMarker();
}

TEST_F(DrainEndTest, TheDrainOfAnotherWorkerStays) {
  coordinator_.DrainWorker("neighbour", kReason);
  drain_end_->Begin("host");
  drain_end_.reset();
  HearMarker();
}

TEST_F(DrainEndTest, ItWaitsForACoordinatorThatIsAway) {
  coordinator_.DrainWorker("host", kReason);
  coordinator_.SetReachable(false);
  drain_end_->Begin("host");
  coordinator_.AwaitListings(2);
  coordinator_.SetReachable(true);
  EXPECT_EQ(coordinator_.NextHeard(), "undrain host");
}

}  // namespace
}  // namespace dp::worker
