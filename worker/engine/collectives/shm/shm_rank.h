#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "worker/engine/collectives/collective.h"
#include "worker/engine/collectives/shm/rank_ticks.h"
#include "worker/engine/collectives/shm/shared_segment.h"

namespace dp::engine {

// A rank at the segment of its group: tells its calls to the peers, and keeps in step with them.
//
// A chunk is staged in a slot of the rank that has its data. A tick says that the rank has staged a
// chunk, reduced its slice of one, or read one. All ranks make the same ticks in the same order, so
// a tick's number says which.
//
// Every operation begins with a tick that all ranks wait for. The tick publishes the call, so that
// all ranks notice calls that disagree. It also says that the rank has finished everything before.
//
// No slot is written while a peer may still read it. A rank writes the slot of chunk c once every
// peer has made a tick that follows its last look at chunk c - 4.
//
// Used by the queue's thread of a group.
class ShmRank {
 public:
  // The error of an operation that must stop while it waits for the ranks `behind`.
  using Late = std::function<absl::Status(const std::vector<int>& behind)>;

  // Both outlive this.
  ShmRank(const SharedSegment& segment, RankTicks& ticks, int rank, int size)
      : segment_(segment), ticks_(ticks), rank_(rank), size_(size) {}

  int rank() const { return rank_; }
  int size() const { return size_; }

  // `late` serves all waits from now on. Precedes everything else.
  void SetLate(Late late) { late_ = std::move(late); }
  // Publishes the call, and with it what was staged, and waits for those of all ranks. Errors:
  // InvalidArgument states how the calls of two ranks differ; those of `late`.
  absl::Status Begin(const Collective& call);
  // The operation is over; it had `chunks` chunks.
  void End(uint64_t chunks) { first_chunk_ += chunks; }

  uint64_t Tick() { return ticks_.Tick(); }
  uint64_t made() const { return ticks_.made(); }
  // Until every rank, or that rank, has made tick `tick`. Errors: those of `late`.
  absl::Status Await(uint64_t tick);
  absl::Status AwaitRank(int rank, uint64_t tick);

  // The place of a chunk of the running operation, numbered from 0.
  uint8_t* slot(int rank, uint64_t chunk) const {
    return segment_.slot(rank, first_chunk_ + chunk);
  }

  // Whether memory lies in this rank's heap.
  bool IsInHeap(absl::Span<const uint8_t> data) const { return PlaceInHeap(data) != 0; }
  // After Begin: where the data of a rank lies, if it lies in its heap. Null: it does not.
  uint8_t* data_in_heap(int rank) const;
  // After Begin of an exchange: the bytes that `from` sends to `to`.
  uint64_t sent(int from, int to) const { return call(from).sent[to]; }

 private:
  SharedCall& call(int rank) const { return segment_.record(rank).calls[operations_ % 2]; }
  uint64_t PlaceInHeap(absl::Span<const uint8_t> data) const;
  absl::Status CheckCallsAgree() const;

  const SharedSegment& segment_;
  RankTicks& ticks_;
  const int rank_;
  const int size_;
  Late late_;
  uint64_t operations_ = 0;
  uint64_t first_chunk_ = 0;  // of the running operation; never begins anew
};

}  // namespace dp::engine
