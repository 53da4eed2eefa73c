#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/engine/collectives/group.h"
#include "worker/engine/collectives/ordered_reduce.h"
#include "worker/engine/collectives/shm/rank_ticks.h"
#include "worker/engine/collectives/shm/shared_segment.h"

namespace dp::engine {

// The collectives over a segment. A chunk is staged in a slot of the rank that has its data. A tick
// says that the rank has staged a chunk, reduced its slice of one, or read one. All ranks make the
// same ticks in the same order, so a tick's number says which.
//
// Every operation begins with a tick that all ranks wait for. The tick publishes the call, so that
// all ranks notice calls that disagree. It also says that the rank has finished everything before.
//
// No slot is written while a peer may still read it. A rank writes the slot of chunk c once every
// peer has made a tick that follows its last look at chunk c - 4.
//
// Used by the queue's thread of a group. When a method has returned, nobody touches the caller's
// memory.
class ShmOperations {
 public:
  // The error of an operation that must stop while it waits for the ranks `behind`.
  using Late = std::function<absl::Status(const std::vector<int>& behind)>;

  // Both outlive this.
  ShmOperations(const SharedSegment& segment, RankTicks& ticks, int rank, int size);

  // Errors: InvalidArgument states how the calls of two ranks differ; those of `late`. After an
  // error no other method may be called.
  absl::Status AllReduce(absl::Span<float> data, ReduceOp op, const Late& late);
  absl::Status Broadcast(absl::Span<uint8_t> data, int root, const Late& late);
  absl::Status AllGather(absl::Span<const uint8_t> data, absl::Span<uint8_t> gathered,
                         const Late& late);

 private:
  class LargeSum;

  absl::Status Begin(const SharedCall& call, const Late& late);
  absl::Status CheckCallsAgree() const;
  absl::Status Await(uint64_t tick, const Late& late);
  absl::Status AwaitRank(int rank, uint64_t tick, const Late& late);
  absl::Status ReduceWhole(absl::Span<float> data, ReduceOp op, const Late& late);
  float* FloatSlot(int rank, uint64_t chunk) const;

  const SharedSegment& segment_;
  RankTicks& ticks_;
  const int rank_;
  const int size_;
  uint64_t operations_ = 0;
  uint64_t chunk_ = 0;  // the first chunk of the running operation; never begins anew
};

}  // namespace dp::engine
