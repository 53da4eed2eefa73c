#pragma once

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "worker/library/ddp/gradient_layout.h"

namespace dp::library {

// The share of one rank in a bucket. Every rank has a part of equal size. The rest has fewer
// elements than there are ranks, and every rank has it too. Pure.
struct BucketShard {
  size_t part = 0;   // elements of each rank's part
  size_t begin = 0;  // of this rank's part, from the beginning of the bucket
  size_t rest = 0;   // the first element of the rest
  size_t end = 0;    // of the bucket

  // The elements of the share.
  size_t size() const { return part + end - rest; }
};

BucketShard ShardOf(const engine::Bucket& bucket, int rank, int ranks);

// A run of elements that lie in one parameter and in one share.
struct ShardPiece {
  size_t parameter = 0;
  size_t begin = 0;  // within the parameter
  size_t size = 0;
  size_t offset = 0;  // in elements, from the beginning of all gradients
  size_t kept = 0;    // the place of its first element in the share
};

// The pieces of `shard` in a bucket of `layout`, in order. Gaps between gradients belong to none.
std::vector<ShardPiece> PiecesOf(const GradientLayout& layout, const engine::Bucket& bucket,
                                 const BucketShard& shard);

}  // namespace dp::library
