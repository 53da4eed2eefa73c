#include "dp/sampler.h"

#include <numeric>

#include "dp/distributed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/library/testing/rank_threads.h"
#include "worker/library/testing/thrown.h"

// The expected indices are those of torch.utils.data.DistributedSampler. tests/interop/sampler_test
// compares more cases with the PyTorch of the host.

namespace dp::distributed {
namespace {

using library::ErrorOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

std::vector<int64_t> Draw(int64_t size, const SamplerOptions& options, uint64_t epoch = 0) {
  DistributedSampler sampler(size, options);
  sampler.set_epoch(epoch);
  EXPECT_EQ(sampler.size(), static_cast<int64_t>(sampler.indices().size()));
  return {sampler.begin(), sampler.end()};
}

TEST(SamplerTest, EqualsPyTorchInOrder) {
  EXPECT_THAT(Draw(10, {.num_replicas = 3, .rank = 0, .shuffle = false}), ElementsAre(0, 3, 6, 9));
  EXPECT_THAT(Draw(10, {.num_replicas = 3, .rank = 2, .shuffle = false}), ElementsAre(2, 5, 8, 1));
  EXPECT_THAT(Draw(10, {.num_replicas = 3, .rank = 2, .shuffle = false, .drop_last = true}),
              ElementsAre(2, 5, 8));
}

TEST(SamplerTest, EqualsPyTorchShuffled) {
  EXPECT_THAT(Draw(10, {.num_replicas = 3, .rank = 0}), ElementsAre(4, 5, 0, 2));
  EXPECT_THAT(Draw(10, {.num_replicas = 3, .rank = 1}), ElementsAre(1, 3, 8, 4));
  EXPECT_THAT(Draw(10, {.num_replicas = 3, .rank = 2}), ElementsAre(7, 9, 6, 1));
  EXPECT_THAT(Draw(10, {.num_replicas = 3, .rank = 1}, 1), ElementsAre(6, 0, 3, 5));
  EXPECT_THAT(Draw(10, {.num_replicas = 3, .rank = 1}, 9), ElementsAre(5, 6, 1, 0));
  EXPECT_THAT(Draw(10, {.num_replicas = 3, .rank = 1, .seed = 42}), ElementsAre(6, 4, 9, 2));
  EXPECT_THAT(Draw(10, {.num_replicas = 3, .rank = 2, .seed = 42, .drop_last = true}, 3),
              ElementsAre(5, 9, 2));
}

TEST(SamplerTest, EqualsPyTorchWithLargeSeeds) {
  EXPECT_THAT(Draw(97, {.num_replicas = 8, .rank = 5, .seed = 2147483647}, 4),
              ElementsAre(1, 3, 84, 63, 64, 41, 23, 88, 69, 89, 44, 92, 86));
  EXPECT_THAT(Draw(97, {.num_replicas = 8, .rank = 5, .seed = 4294967301}, 1),
              ElementsAre(54, 66, 30, 50, 78, 64, 4, 26, 94, 81, 38, 33, 14));
  EXPECT_THAT(Draw(97, {.num_replicas = 8, .rank = 7, .seed = 2147483647, .drop_last = true}, 4),
              ElementsAre(58, 48, 70, 85, 46, 16, 14, 12, 4, 15, 50, 59));
}

TEST(SamplerTest, EqualsPyTorchWithFewerSamplesThanReplicas) {
  EXPECT_THAT(Draw(2, {.num_replicas = 7, .rank = 6}), ElementsAre(0));
  EXPECT_THAT(Draw(2, {.num_replicas = 7, .rank = 6, .drop_last = true}), IsEmpty());
  EXPECT_THAT(Draw(0, {.num_replicas = 2, .rank = 1}), IsEmpty());
}

TEST(SamplerTest, TellsHowManySamplesAreNoPadding) {
  for (const bool drop_last : {false, true}) {
    for (const int64_t size : {0, 2, 7, 9, 10}) {
      std::vector<int64_t> seen;
      for (int rank = 0; rank < 4; ++rank) {
        const DistributedSampler sampler(
            size, {.num_replicas = 4, .rank = rank, .shuffle = false, .drop_last = drop_last});
        seen.insert(seen.end(), sampler.begin(), sampler.begin() + sampler.unpadded_size());
      }
      std::sort(seen.begin(), seen.end());
      std::vector<int64_t> each(drop_last ? size / 4 * 4 : size);
      std::iota(each.begin(), each.end(), 0);
      EXPECT_THAT(seen, ElementsAreArray(each)) << size << " samples, drop_last " << drop_last;
    }
  }
}

TEST(SamplerTest, TakesTheDefaultGroupWhereNothingIsGiven) {
  const DistError none = ErrorOf([] { DistributedSampler(10, {.num_replicas = 2}); });
  EXPECT_EQ(none.kind(), ErrorKind::kWrongState);
  EXPECT_STREQ(none.what(),
               "DistributedSampler: rank is not given, and there is no default process group; give "
               "num_replicas and rank, or call init_process_group first");
  const HashStore store;
  std::jthread one([&] {
    library::OnThread([&] { destroy_process_group(ProcessGroup(library::Thread(store, 1, 2))); });
  });
  library::OnThread([&] {
    init_process_group(library::Thread(store, 0, 2));
    const DistributedSampler sampler(10), other(10, {.rank = 1});
    EXPECT_EQ(sampler.num_replicas(), 2);
    EXPECT_EQ(sampler.rank(), 0);
    EXPECT_EQ(other.num_replicas(), 2);
    EXPECT_EQ(other.rank(), 1);
    destroy_process_group();
  });
}

TEST(SamplerTest, RejectsWhatIsNoShareOfADataset) {
  const auto said = [](int64_t size, int replicas, int rank) {
    const DistError error =
        ErrorOf([&] { DistributedSampler(size, {.num_replicas = replicas, .rank = rank}); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return std::string(error.what());
  };
  EXPECT_EQ(said(5, 2, 2), "DistributedSampler: rank is 2 of 2 replicas; give 0 to 1");
  EXPECT_EQ(said(5, 2, -1), "DistributedSampler: rank is -1 of 2 replicas; give 0 to 1");
  EXPECT_EQ(said(5, 0, 0), "DistributedSampler: num_replicas is 0; give 1 or more");
  EXPECT_EQ(said(-1, 1, 0), "DistributedSampler: dataset_size is -1; give 0 to 4294967295");
  EXPECT_EQ(said(int64_t{1} << 32, 1, 0),
            "DistributedSampler: dataset_size is 4294967296; give 0 to 4294967295");
}

}  // namespace
}  // namespace dp::distributed
