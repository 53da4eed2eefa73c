#include "worker/library/ddp/bucket_shards.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::library {
namespace {

using ::testing::Each;

TEST(BucketShardsTest, PartsAreEqualAndTheRestIsEveryRanks) {
  const engine::Bucket bucket{.size = 14};
  const BucketShard second = ShardOf(bucket, 1, 4);
  EXPECT_EQ(second.part, 3u);
  EXPECT_EQ(second.begin, 3u);
  EXPECT_EQ(second.rest, 12u);
  EXPECT_EQ(second.size(), 5u);
}

// Each element of each parameter is in one part, or in the rest of every rank.
TEST(BucketShardsTest, PiecesCoverEveryParameterOnce) {
  const std::vector<GradientSize> gradients = {{5}, {33}, {17}, {1}, {40}};
  for (const int ranks : {1, 2, 3, 7}) {
    const GradientLayout layout =
        LayOutGradients(gradients, {4, 3, 2, 1, 0}, {.first_bytes = 300, .cap_bytes = 300});
    std::vector<std::vector<int>> times;
    for (const GradientSize& gradient : gradients) times.emplace_back(gradient.count);
    for (int rank = 0; rank < ranks; ++rank) {
      for (const engine::Bucket& bucket : layout.buckets) {
        const BucketShard shard = ShardOf(bucket, rank, ranks);
        size_t kept = 0;
        for (const ShardPiece& piece : PiecesOf(layout, bucket, shard)) {
          EXPECT_GE(piece.kept, kept);
          kept = piece.kept + piece.size;
          EXPECT_LE(kept, shard.size());
          EXPECT_EQ(piece.offset, layout.offset_bytes(piece.parameter) / 4 + piece.begin);
          const bool of_all = piece.offset - size_t(bucket.offset) >= shard.rest;
          for (size_t i = 0; i < piece.size; ++i)
            times[piece.parameter][piece.begin + i] += of_all && rank > 0 ? 0 : 1;
        }
      }
    }
    EXPECT_THAT(times, Each(Each(1))) << ranks;
  }
}

}  // namespace
}  // namespace dp::library
