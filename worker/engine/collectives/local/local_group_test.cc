#include "worker/engine/collectives/local/local_group.h"

#include "worker/engine/collectives/testing/group_conformance.h"

namespace dp::engine {
namespace {

INSTANTIATE_TEST_SUITE_P(LocalGroup, GroupConformance,
                         ::testing::Combine(::testing::Values(Backend{MakeLocalGroups}),
                                            ::testing::Range(1, 5)));
INSTANTIATE_TEST_SUITE_P(LocalGroup, MessageConformance,
                         ::testing::Combine(::testing::Values(Backend{MakeLocalGroups}),
                                            ::testing::Range(1, 5)));

TEST(LocalGroupTest, OneRankAloneLeavesMemoryUntouchedWhichMayBeADevices) {
  Groups groups = MakeLocalGroups(1);
  float* const on_no_page = reinterpret_cast<float*>(64);
  EXPECT_EQ(groups[0]->AllReduce(absl::MakeSpan(on_no_page, 1000), ReduceOp::kSum)->Wait(),
            absl::OkStatus());
}

}  // namespace
}  // namespace dp::engine
