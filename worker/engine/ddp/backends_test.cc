// The same gradients over every backend of ranks on CPUs, and over several bucket plans.

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "store/hash_store.h"
#include "worker/engine/collectives/gloo/gloo_group.h"
#include "worker/engine/collectives/hierarchical/hierarchical_group.h"
#include "worker/engine/collectives/local/local_group.h"
#include "worker/engine/collectives/shm/shm_group.h"
#include "worker/engine/collectives/testing/awkward_values.h"
#include "worker/engine/ddp/reducer.h"
#include "worker/engine/ddp/testing/layout_of_sizes.h"

namespace dp::engine {
namespace {

using Groups = std::vector<std::unique_ptr<Group>>;

// Parameters on both sides of every border of the backends: single values to 6 MiB.
const std::vector<int64_t> kSizes{3, 70001, 1, 1500000, 257, 16384, 40000, 10};

// Zero between parameters: no bucket holds the gap that follows its last parameter.
std::vector<float> GradientsOf(int rank, const ParameterLayout& layout) {
  std::vector<float> gradients(layout.size);
  for (const Parameter& parameter : layout.parameters)
    for (int64_t i = 0; i < parameter.size; ++i)
      gradients[parameter.offset + i] = AwkwardValue(rank, i);
  return gradients;
}

class BackendsTest : public ::testing::TestWithParam<int> {
 protected:
  int size() const { return GetParam(); }

  template <typename Connect>
  Groups ConnectAll(const Connect& connect) const {
    HashStore store;
    Groups groups(size());
    std::vector<std::jthread> threads;
    for (int r = 0; r < size(); ++r)
      threads.emplace_back([&, r] {
        absl::StatusOr<std::unique_ptr<Group>> group = connect(store, r);
        ASSERT_TRUE(group.ok()) << group.status();
        groups[r] = *std::move(group);
      });
    threads.clear();
    return groups;
  }
  Groups OverShm() const {
    return ConnectAll([this](Store& store, int r) { return ConnectShm(store, r, size(), {}); });
  }
  Groups OverGloo() const {
    return ConnectAll([this](Store& store, int r) {
      return ConnectGloo(store, r, size(), {.address = "127.0.0.1"});
    });
  }

  // Two ranks on each host.
  Groups OverHosts() const {
    return ConnectAll([this](Store& store, int r) -> absl::StatusOr<std::unique_ptr<Group>> {
      const HierarchicalOptions options{
          .address = "127.0.0.1", .interface = "", .host = std::to_string(r / 2)};
      auto hosts = ConnectHierarchical(store, r, size(), options);
      if (!hosts.ok()) return hosts.status();
      return std::move(hosts->group);
    });
  }

  // The gradients that rank 0 has after a backward; all ranks have the same.
  std::vector<float> Averaged(Groups groups, int64_t bucket_bytes) const {
    const ParameterLayout layout = LayoutOfSizes(kSizes);
    std::vector<std::vector<float>> gradients(size());
    std::vector<std::jthread> threads;
    for (int r = 0; r < size(); ++r)
      threads.emplace_back([&, r] {
        gradients[r] = GradientsOf(r, layout);
        Reducer reducer(*groups[r], layout, absl::MakeSpan(gradients[r]),
                        {.buckets = {.first_bytes = bucket_bytes, .cap_bytes = bucket_bytes}});
        reducer.BeginBackward(Reducer::Sync::kYes);
        for (size_t p = 0; p < kSizes.size(); ++p) reducer.GradientReady(static_cast<int>(p));
        ASSERT_EQ(reducer.EndBackward(), absl::OkStatus());
      });
    threads.clear();
    for (int r = 1; r < size(); ++r) EXPECT_EQ(gradients[r], gradients[0]) << "rank " << r;
    return gradients[0];
  }
};

bool BuiltWithGloo() {
  HashStore store;
  return !absl::IsUnimplemented(ConnectGloo(store, 0, 1, {.address = "127.0.0.1"}).status());
}

TEST_P(BackendsTest, NeitherBackendNorBucketPlanChangesABit) {
  constexpr int64_t kSmall = int64_t{100} << 10, kLarge = int64_t{25} << 20;
  const std::vector<float> expected = Averaged(MakeLocalGroups(size()), kLarge);
  for (const int64_t bytes : {kSmall, kLarge}) {
    EXPECT_EQ(Averaged(MakeLocalGroups(size()), bytes), expected) << bytes;
    EXPECT_EQ(Averaged(OverShm(), bytes), expected) << bytes;
    if (BuiltWithGloo()) {
      EXPECT_EQ(Averaged(OverGloo(), bytes), expected) << bytes;
      EXPECT_EQ(Averaged(OverHosts(), bytes), expected) << bytes;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(TwoToFourRanks, BackendsTest, ::testing::Range(2, 5));

}  // namespace
}  // namespace dp::engine
