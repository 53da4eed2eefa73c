#include "worker/engine/collectives/local/local_group.h"

#include "worker/engine/collectives/testing/group_conformance.h"

namespace dp::engine {
namespace {

INSTANTIATE_TEST_SUITE_P(LocalGroup, GroupConformance,
                         ::testing::Combine(::testing::Values(Backend{MakeLocalGroups}),
                                            ::testing::Range(1, 5)));

TEST(LocalGroupTest, OneRankAloneLeavesMemoryUntouchedWhichMayBeADevices) {
  Groups groups = MakeLocalGroups(1);
  float* const on_no_page = reinterpret_cast<float*>(64);
  EXPECT_EQ(groups[0]->AllReduce({on_no_page, 1000}, ReduceOp::kSum)->Wait(), absl::OkStatus());
}

TEST(LocalGroupTest, CallsThatDoNotAgreeAreRefusedOnAllRanks) {
  Groups groups = MakeLocalGroups(2);
  std::vector<float> ten(10), eleven(11);
  auto first = groups[0]->AllReduce(absl::MakeSpan(ten), ReduceOp::kSum);
  auto second = groups[1]->AllReduce(absl::MakeSpan(eleven), ReduceOp::kSum);
  EXPECT_EQ(first->Wait().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(second->Wait().message(),
            "all_reduce 1: rank 0 calls all_reduce of 10 floats, op 0, rank 1 calls all_reduce of "
            "11 floats, op 0");
}

}  // namespace
}  // namespace dp::engine
