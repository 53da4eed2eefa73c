#include "worker/library/ddp/bucket_shards.h"

#include <algorithm>

namespace dp::library {
namespace {

// Appends the pieces of the elements [begin, end) of a bucket, whose share begins at `kept`.
void AppendPieces(const GradientLayout& layout, const engine::Bucket& bucket, size_t begin,
                  size_t end, size_t kept, std::vector<ShardPiece>& pieces) {
  const auto first = static_cast<size_t>(bucket.offset);
  for (int p = bucket.first_parameter; p < bucket.first_parameter + bucket.parameters; ++p) {
    const engine::GradientRange& gradient = layout.gradients[p];
    const size_t from = static_cast<size_t>(gradient.offset) - first;
    const size_t low = std::max(from, begin);
    const size_t high = std::min(from + static_cast<size_t>(gradient.size), end);
    if (low >= high) continue;
    pieces.push_back({.parameter = layout.parameters[p],
                      .begin = low - from,
                      .size = high - low,
                      .offset = first + low,
                      .kept = kept + low - begin});
  }
}

}  // namespace

BucketShard ShardOf(const engine::Bucket& bucket, int rank, int ranks) {
  const auto size = static_cast<size_t>(bucket.size), parts = static_cast<size_t>(ranks);
  const size_t part = size / parts;
  return {
      .part = part, .begin = part * static_cast<size_t>(rank), .rest = part * parts, .end = size};
}

std::vector<ShardPiece> PiecesOf(const GradientLayout& layout, const engine::Bucket& bucket,
                                 const BucketShard& shard) {
  std::vector<ShardPiece> pieces;
  AppendPieces(layout, bucket, shard.begin, shard.begin + shard.part, 0, pieces);
  AppendPieces(layout, bucket, shard.rest, shard.end, shard.part, pieces);
  return pieces;
}

}  // namespace dp::library
