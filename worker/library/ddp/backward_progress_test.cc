#include "worker/library/ddp/backward_progress.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::library {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<std::string> kNames = {"a", "b", "c"};

TEST(BackwardProgressTest, EachBackwardNeedsEveryGradientOnce) {
  BackwardProgress progress(kNames, {});
  for (int backward = 0; backward < 2; ++backward) {
    EXPECT_FALSE(progress.begun());
    for (const size_t parameter : {2, 0, 1})
      EXPECT_THAT(*progress.Report(parameter), ElementsAre(parameter));
    EXPECT_TRUE(progress.begun());
    EXPECT_THAT(*progress.Finish(), IsEmpty());
    EXPECT_THAT(progress.order(), ElementsAre(2, 0, 1));
  }
}

TEST(BackwardProgressTest, ABackwardWithoutSyncNeedsNone) {
  BackwardProgress progress(kNames, {});
  ASSERT_TRUE(progress.Report(1).ok());
  progress.FinishWithoutSync();
  EXPECT_FALSE(progress.begun());
  ASSERT_TRUE(progress.Report(0).ok());
  EXPECT_EQ(progress.Finish().status().message().substr(0, 37),
            "no gradient in this backward for b, c");
}

TEST(BackwardProgressTest, UseCountsUntilItIsForgotten) {
  BackwardProgress progress(kNames, {.find_unused_parameters = true});
  ASSERT_TRUE(progress.Report(1).ok());
  progress.FinishWithoutSync();
  ASSERT_TRUE(progress.Report(0).ok());
  EXPECT_THAT(*progress.Finish(), ElementsAre(1, 2));
  EXPECT_THAT(progress.used(), ElementsAre(1, 1, 0));
  progress.ForgetUse();
  EXPECT_THAT(progress.used(), ElementsAre(0, 0, 0));
}

TEST(BackwardProgressTest, AStaticGraphCompletesUnusedOnesAtTheFirstReport) {
  BackwardProgress progress(kNames, {.static_graph = true});
  ASSERT_TRUE(progress.Report(2).ok());
  EXPECT_THAT(*progress.Finish(), ElementsAre(0, 1));
  progress.ForgetUse();
  EXPECT_THAT(*progress.Report(2), ElementsAre(0, 1, 2));
  EXPECT_THAT(*progress.Finish(), IsEmpty());
  EXPECT_TRUE(absl::IsFailedPrecondition(progress.Report(0).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(progress.Finish().status()));  // c has none
}

}  // namespace
}  // namespace dp::library
