#include "worker/core/slot_devices.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const absl::Time kBeginning = absl::UnixEpoch();
constexpr int64_t kMiB = int64_t{1} << 20;

// Slot 0 has devices a and c, slot 1 has b, slot 2 none.
class SlotDevicesTest : public testing::Test {
 protected:
  void Ask(absl::Duration at = {}) { devices_.Asked(kBeginning + at); }
  void Answer(int64_t a, int64_t b, int64_t c, absl::Duration at = {}) {
    devices_.Answered({{"a", a * kMiB}, {"b", b * kMiB}, {"c", c * kMiB}}, kBeginning + at);
  }
  // One word for each slot, "fit" or "returning", or the reason.
  std::vector<std::string> Slots() const {
    std::vector<std::string> words;
    for (const SlotFitness& slot : devices_.slots()) {
      words.push_back(slot.state == SlotFitness::State::kFit         ? "fit"
                      : slot.state == SlotFitness::State::kReturning ? "returning"
                                                                     : slot.reason);
    }
    return words;
  }

  SlotDevices devices_{{{{"a", "GPU 0 (a)"}, {"c", "GPU 2 (c)"}}, {{"b", "GPU 1 (b)"}}, {}},
                       {.free_bytes_max = 512 * kMiB, .patience = absl::Seconds(30)},
                       kBeginning};
};

TEST_F(SlotDevicesTest, AtTheStartASlotIsFitOnceTheMemoryOfAllItsDevicesIsFree) {
  EXPECT_THAT(Slots(), ElementsAre("returning", "returning", "fit"));
  EXPECT_THAT(devices_.Waiting(), ElementsAre("a", "b", "c"));
  Ask();
  Answer(0, 512, 513);
  EXPECT_THAT(Slots(), ElementsAre("returning", "fit", "fit"));
  Ask();
  Answer(0, 9000, 0);
  EXPECT_THAT(Slots(), ElementsAre("fit", "fit", "fit"));
  EXPECT_THAT(devices_.Waiting(), IsEmpty());
  EXPECT_EQ(devices_.ask_at(), absl::InfiniteFuture());
}

TEST_F(SlotDevicesTest, ASlotReturnsWhenTheMemoryIsFreeNotWhenItsProcessesAreGone) {
  Ask();
  Answer(0, 0, 0);
  devices_.Taken(1);
  EXPECT_THAT(devices_.Waiting(), IsEmpty());
  devices_.TreeGone(1, kBeginning + absl::Seconds(5));
  EXPECT_THAT(Slots(), ElementsAre("fit", "returning", "fit"));
  EXPECT_THAT(devices_.Waiting(), ElementsAre("b"));
  Ask(absl::Seconds(5));
  Answer(0, 9000, 0, absl::Seconds(6));
  EXPECT_THAT(Slots(), ElementsAre("fit", "returning", "fit"));
  Ask(absl::Seconds(6));
  Answer(0, 3, 0, absl::Seconds(6));
  EXPECT_THAT(Slots(), ElementsAre("fit", "fit", "fit"));
}

TEST_F(SlotDevicesTest, AnAnswerToAQuestionBeforeTheEndSaysNothing) {
  Ask();
  Answer(0, 0, 0);
  devices_.Taken(1);
  Ask(absl::Seconds(1));
  devices_.TreeGone(1, kBeginning + absl::Seconds(2));
  Answer(0, 0, 0, absl::Seconds(3));
  EXPECT_THAT(Slots(), ElementsAre("fit", "returning", "fit"));
}

TEST_F(SlotDevicesTest, MemoryThatIsNotLetGoMakesTheSlotUnfitWithTheReasonAndUntilItIs) {
  Ask();
  Answer(0, 0, 0);
  devices_.TreeGone(1, kBeginning);
  Ask(absl::Seconds(29));
  Answer(0, 1200, 0, absl::Seconds(29));
  EXPECT_THAT(Slots(), ElementsAre("fit", "returning", "fit"));
  Ask(absl::Seconds(29.5));
  Answer(0, 1200, 0, absl::Seconds(30));
  EXPECT_THAT(
      Slots(),
      ElementsAre("fit", "GPU 1 (b) still holds 1200 MiB after its processes ended", "fit"));
  Ask(absl::Seconds(40));
  Answer(0, 0, 0, absl::Seconds(40));
  EXPECT_THAT(Slots(), ElementsAre("fit", "fit", "fit"));
}

TEST_F(SlotDevicesTest, WhatWasThereBeforeTheDaemonIsSaidToBeNoRanks) {
  Ask(absl::Seconds(31));
  Answer(0, 0, 2048, absl::Seconds(31));
  EXPECT_THAT(Slots(), ElementsAre("GPU 2 (c) holds 2048 MiB that no rank uses", "fit", "fit"));
}

TEST_F(SlotDevicesTest, ADeviceWhoseDriverSaysNoIsUnfitWithItsWords) {
  Ask(absl::Seconds(30));
  devices_.Answered({{"a", 0}, {"b", absl::InternalError("GPU is lost")}, {"c", 0}},
                    kBeginning + absl::Seconds(30));
  EXPECT_EQ(Slots()[1], "GPU 1 (b) does not say how much memory is in use: GPU is lost");
}

TEST_F(SlotDevicesTest, ADriverThatNeverAnswersMakesTheSlotUnfitToo) {
  Ask();
  EXPECT_EQ(devices_.ask_at(), kBeginning + absl::Seconds(30));
  devices_.Pass(kBeginning + absl::Seconds(30));
  EXPECT_EQ(Slots()[1], "GPU 1 (b): its driver has not answered for 30s");
}

TEST_F(SlotDevicesTest, TheDriverIsAskedOftenAtFirstAndRarelyAboutUnfitSlots) {
  Ask();
  Answer(0, 0, 2048);
  EXPECT_EQ(devices_.ask_at(), kBeginning + absl::Milliseconds(500));
  Ask(absl::Seconds(30));
  Answer(0, 0, 2048, absl::Seconds(30));
  EXPECT_EQ(devices_.ask_at(), kBeginning + absl::Seconds(40));
}

}  // namespace
}  // namespace dp::worker
