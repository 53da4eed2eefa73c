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
// runs while a candidate does, and by graphs that queue their work again.

namespace {

// How long candidates have run since the beginning, and until a time was last asked for.
float ran_ms = 0, told_ms = 0;

}  // namespace

extern "C" {

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) {
  *ms = ran_ms - std::exchange(told_ms, ran_ms);
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

}  // namespace

absl::StatusOr<Libraries> Libraries::Open() { return Libraries(); }

absl::StatusOr<GraphExec> CaptureGraph(cudaStream_t, const std::function<absl::Status()>& enqueue) {
  if (graphs_are_refused) return absl::InternalError("not while capturing");
  GraphExec graph;
  graph.exec_.reset(reinterpret_cast<cudaGraphExec_t>(new std::function<absl::Status()>(enqueue)));
  return graph;
}
absl::Status GraphExec::Launch(cudaStream_t) const {
  return (*reinterpret_cast<const std::function<absl::Status()>*>(exec_.get()))();
}

namespace {

using ::testing::ElementsAre;

class PlanTuningTest : public testing::Test {
 protected:
  void SetUp() override { graphs_are_refused = false; }

  // `ms` is how long each candidate takes. A candidate with a negative time cannot be built.
  absl::Status Build(std::vector<float> ms, Tuning tuning = Tuning::kTimed) {
    std::vector<std::string> names;
    for (size_t i = 0; i < ms.size(); ++i) names.push_back(absl::StrCat("engine ", i));
    runs_.assign(ms.size(), 0);
    built_.clear();
    const Planning planning{*libraries_, cache_, nullptr, nullptr, 0, tuning};
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
                                      ran_ms += ms[built_.back()];
                                      ++runs_[built_.back()];
                                      return absl::OkStatus();
                                    }});
  }

  absl::StatusOr<Libraries> libraries_ = Libraries::Open();
  PlanCache cache_{"", "a card"};
  std::vector<int> built_;  // in order
  std::vector<int> runs_;   // by candidate
};

TEST_F(PlanTuningTest, TheFastestIsBuiltLastAndKept) {
  ASSERT_TRUE(Build({3, 1, 2}).ok());
  EXPECT_THAT(built_, ElementsAre(0, 1, 2, 1));
  EXPECT_EQ(cache_.Find("a product"), "engine 1");
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

// One run warms up and one shows how long the candidate takes. A long one is then timed five times;
// of a short one, a launch of ten warms up and five launches are timed.
TEST_F(PlanTuningTest, WhatIsShortIsTimedTenAtOnce) {
  ASSERT_TRUE(Build({0.5f, 0.01f}).ok());
  EXPECT_THAT(runs_, ElementsAre(2 + 5, 2 + 10 + 5 * 10));
  EXPECT_EQ(cache_.Find("a product"), "engine 1");
}

TEST_F(PlanTuningTest, WhatCannotBeCapturedIsTimedOneByOne) {
  graphs_are_refused = true;
  ASSERT_TRUE(Build({0.02f, 0.01f}).ok());
  EXPECT_THAT(runs_, ElementsAre(2 + 5, 2 + 5));
  EXPECT_EQ(cache_.Find("a product"), "engine 1");
}

}  // namespace
}  // namespace dp::engine::cuda
