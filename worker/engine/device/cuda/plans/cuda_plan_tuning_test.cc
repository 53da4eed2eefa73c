#include "worker/engine/device/cuda/plans/cuda_plan_tuning.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/device/cuda/runtime/cuda_graph.h"

// The choice among candidates whose times the test sets. The device is replaced by a clock that
// runs while a candidate does, and by graphs that queue their work again. As a card's, its clock is
// slow until the card has been busy for a while.

namespace {

// How long candidates have run since the beginning, and until the last of what was queued at once.
float ran_ms = 0, before_ms = 0;
bool launching = false;

}  // namespace

extern "C" {

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventBlockingSync);
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) {
  *ms = ran_ms - before_ms;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete reinterpret_cast<std::function<absl::Status()>*>(graph);
  return cudaSuccess;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
cudnnStatus_t cudnnDestroy(cudnnHandle_t) { return CUDNN_STATUS_SUCCESS; }

}  // extern "C"

namespace dp::engine::cuda {
namespace {

bool graphs_are_refused = false;

// A card needs so long to raise its clock, and computes as much slower before.
constexpr float kRaisesClockMs = 250;
constexpr float kSlowAtRest = 2;

}  // namespace

absl::StatusOr<Libraries> Libraries::Open() { return Libraries(); }

absl::StatusOr<GraphExec> CaptureGraph(cudaStream_t, const std::function<absl::Status()>& enqueue) {
  if (graphs_are_refused) return absl::InternalError("not while capturing");
  GraphExec graph;
  graph.exec_.reset(reinterpret_cast<cudaGraphExec_t>(new std::function<absl::Status()>(enqueue)));
  return graph;
}
absl::Status GraphExec::Launch(cudaStream_t) const {
  before_ms = ran_ms;
  launching = true;
  const absl::Status ran = (*reinterpret_cast<const std::function<absl::Status()>*>(exec_.get()))();
  launching = false;
  return ran;
}

namespace {

using ::testing::ElementsAre;

class PlanTuningTest : public testing::Test {
 protected:
  void SetUp() override {
    graphs_are_refused = false;
    AtRest(false);
  }
  static void AtRest(bool at_rest) { ran_ms = at_rest ? 0 : kRaisesClockMs; }

  // `ms` is how long each candidate takes. A candidate with a negative time cannot be built.
  absl::Status Build(std::vector<float> ms, Tuning tuning = Tuning::kTimed) {
    std::vector<std::string> names;
    for (size_t i = 0; i < ms.size(); ++i) names.push_back(absl::StrCat("engine ", i));
    runs_.assign(ms.size(), 0);
    built_.clear();
    const Planning planning{*libraries_, cache_, nullptr, nullptr, 0, busy_ms_, tuning};
    return BuildBest(planning, {.plan = "a product",
                                .candidates = names,
                                .build =
                                    [&](int i) {
                                      if (ms[i] < 0) return absl::UnimplementedError(names[i]);
                                      built_.push_back(i);
                                      return absl::OkStatus();
                                    },
                                .run =
                                    [&] {
                                      if (!launching) before_ms = ran_ms;
                                      const bool rested = ran_ms < kRaisesClockMs;
                                      ran_ms += ms[built_.back()] * (rested ? kSlowAtRest : 1);
                                      ++runs_[built_.back()];
                                      return absl::OkStatus();
                                    }});
  }

  absl::StatusOr<Libraries> libraries_ = Libraries::Open();
  PlanCache cache_{"", "a card"};
  float busy_ms_ = 300;     // nothing need be done before the first timing
  std::vector<int> built_;  // in order
  std::vector<int> runs_;   // by candidate
};

TEST_F(PlanTuningTest, TheFastestIsBuiltLastAndKept) {
  ASSERT_TRUE(Build({1.2f, 1, 1.1f}).ok());
  EXPECT_THAT(built_, ElementsAre(0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 1));
  EXPECT_EQ(cache_.Find("a product"), "engine 1");
}

TEST_F(PlanTuningTest, WhatIsMuchSlowerHasOneTurn) {
  ASSERT_TRUE(Build({3, 1, 2}).ok());
  EXPECT_THAT(built_, ElementsAre(0, 1, 2, 1, 1, 1, 1, 1, 1));
  EXPECT_THAT(runs_, ElementsAre(2, 2 + 5, 2));
}

// At rest, the first candidates would seem slower than they are.
TEST_F(PlanTuningTest, TheCardIsBusyUntilItsClockIsUp) {
  AtRest(true);
  busy_ms_ = 0;
  ASSERT_TRUE(Build({1, 1.5f, 1.5f}).ok());
  EXPECT_EQ(cache_.Find("a product"), "engine 0");
  EXPECT_GE(busy_ms_, kRaisesClockMs);
  EXPECT_GT(runs_[0], 100);
  ASSERT_TRUE(Build({-1, 1, 1}).ok());  // a plan that is gone
  EXPECT_EQ(runs_[1], 2 + 5);           // the card is still busy
}

TEST_F(PlanTuningTest, WhatIsKeptIsBuiltAtOnce) {
  ASSERT_TRUE(Build({3, 1, 2}).ok());
  ASSERT_TRUE(Build({1, 3, 2}).ok());
  EXPECT_THAT(built_, ElementsAre(1));
  EXPECT_THAT(runs_, ElementsAre(0, 0, 0));
}

TEST_F(PlanTuningTest, AChoiceThatCannotBeBuiltAnyMoreIsReplaced) {
  ASSERT_TRUE(Build({3, 1, 2}).ok());
  ASSERT_TRUE(Build({3, -1, 2}).ok());
  EXPECT_EQ(built_.back(), 2);
  EXPECT_EQ(cache_.Find("a product"), "engine 2");
}

TEST_F(PlanTuningTest, WithoutAClockTheLibrarysFavouriteIsTaken) {
  ASSERT_TRUE(Build({-1, 3, 1}, Tuning::kFirst).ok());
  EXPECT_THAT(built_, ElementsAre(1));
  EXPECT_THAT(runs_, ElementsAre(0, 0, 0));
  EXPECT_FALSE(cache_.Find("a product").has_value());
}

TEST_F(PlanTuningTest, WithoutACandidateTheFirstErrorIsTold) {
  EXPECT_EQ(Build({-1, -1}).message(), "engine 0");
  EXPECT_EQ(Build({}).message(), "a product: the library has no algorithm");
}

// One run warms up and one shows how long the candidate takes. For a short one, each time is that
// of a launch of ten behind another.
TEST_F(PlanTuningTest, WhatIsShortIsTimedTenAtOnce) {
  ASSERT_TRUE(Build({0.24f, 0.19f}).ok());
  EXPECT_THAT(runs_, ElementsAre(2 + 5, 2 + 20 + 5 * 20));
  EXPECT_EQ(cache_.Find("a product"), "engine 1");
}

TEST_F(PlanTuningTest, WhatCannotBeCapturedIsTimedOneByOne) {
  graphs_are_refused = true;
  ASSERT_TRUE(Build({0.012f, 0.01f}).ok());
  EXPECT_THAT(runs_, ElementsAre(2 + 1 + 5, 2 + 1 + 5));
  EXPECT_EQ(cache_.Find("a product"), "engine 1");
}

}  // namespace
}  // namespace dp::engine::cuda
