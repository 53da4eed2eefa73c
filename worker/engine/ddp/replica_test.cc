#include "worker/engine/ddp/replica.h"

#include <functional>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/collectives/local/local_group.h"
#include "worker/engine/ddp/testing/layout_of_sizes.h"

namespace dp::engine {
namespace {

// Runs AlignReplicas on all ranks, each with its layout of `layout_of`; returns their statuses.
std::vector<absl::Status> Align(int size, const std::function<ParameterLayout(int)>& layout_of,
                                std::vector<std::vector<float>>* values) {
  auto groups = MakeLocalGroups(size, {.timeout = absl::Seconds(60)});
  std::vector<absl::Status> statuses(size);
  values->resize(size);
  std::vector<std::jthread> threads;
  for (auto& group : groups)
    threads.emplace_back([&, rank = group->rank()] {
      const ParameterLayout layout = layout_of(rank);
      (*values)[rank].assign(layout.size, static_cast<float>(rank + 1));
      statuses[rank] = AlignReplicas(*groups[rank], layout, absl::MakeSpan((*values)[rank]));
    });
  threads.clear();
  return statuses;
}

TEST(ReplicaTest, EveryRankGetsTheValuesOfRankZero) {
  std::vector<std::vector<float>> values;
  for (const auto& status : Align(
           3,
           [](int) {
             return LayoutOfSizes({5, 40});
           },
           &values))
    EXPECT_TRUE(status.ok()) << status;
  for (const auto& v : values) EXPECT_THAT(v, ::testing::Each(1.0f));
}

TEST(ReplicaTest, TheFirstParameterThatDiffersIsNamedWithRanksAndShapes) {
  std::vector<std::vector<float>> values;
  auto layout_of = [](int rank) {
    return rank == 1 ? LayoutOfSizes({5, 40, 2}) : LayoutOfSizes({5, 39, 3});
  };
  for (const auto& status : Align(3, layout_of, &values)) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(status.message(),
              "replicas differ in parameter 1: rank 0 has p1 39 at 16; rank 1 has p1 40 at 16");
  }
  EXPECT_THAT(values[1], ::testing::Each(2.0f));  // nothing was broadcast
}

TEST(ReplicaTest, ARankWithFewerParametersIsNamed) {
  std::vector<std::vector<float>> values;
  auto layout_of = [](int rank) { return rank == 1 ? LayoutOfSizes({5}) : LayoutOfSizes({5, 2}); };
  EXPECT_EQ(Align(2, layout_of, &values)[0].message(),
            "replicas differ in parameter 1: rank 0 has p1 2 at 16; rank 1 has no such parameter");
}

TEST(ReplicaTest, TheKindOfWhatDiffersIsNamed) {
  auto groups = MakeLocalGroups(2, {.timeout = absl::Seconds(60)});
  std::vector<std::jthread> threads;
  for (auto& group : groups)
    threads.emplace_back([&group = *group] {
      EXPECT_EQ(CheckReplicasAgree(group, "buffer", group.rank() == 0 ? "mean 2\n" : "").message(),
                "replicas differ in buffer 0: rank 0 has mean 2; rank 1 has no such buffer");
    });
}

}  // namespace
}  // namespace dp::engine
