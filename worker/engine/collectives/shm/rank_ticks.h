#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/clock.h"
#include "worker/engine/collectives/shm/shared_segment.h"
#include "worker/engine/collectives/shm/spin_policy.h"

namespace dp::engine {

// How the ranks of a segment wait for each other. A rank counts its progress in ticks. A peer waits
// for the tick of a certain number: it spins for a moment, then sleeps on a futex of its own.
// Owned by a group. Tick and the waits run on the group's queue thread; the rest on any.
class RankTicks {
 public:
  enum class Wait {
    kReached,
    kInterrupted,
    kPeerLeft,  // a peer has left, and will never make the tick
  };

  // `segment` outlives this.
  RankTicks(const SharedSegment& segment, int rank, int size, SpinPolicy policy,
            const Clock& clock = Clock::Steady());

  // Makes the next tick, and wakes the peers that sleep for it. They then see all that this rank
  // has written before. Returns the tick's number, from 1.
  uint64_t Tick();
  // The number of this rank's latest tick.
  uint64_t made() const { return ticks_; }
  // Blocks until every peer has made tick `number`.
  Wait AwaitTick(uint64_t number);
  // Blocks until that peer has.
  Wait AwaitTickOf(int peer, uint64_t number);
  // Blocks until `answer` is true, which is called whenever a peer leaves or somebody interrupts or
  // rings.
  void AwaitRing(const std::function<bool()>& answer);

  // The peers that have not made tick `number`.
  std::vector<int> Behind(uint64_t number) const;
  bool HasLeft(int rank) const { return segment_.record(rank).left.load() != 0; }

  // Tells every peer that this rank has left in good order: it makes no more ticks. Idempotent.
  void Leave();
  // Ends the running wait for a tick, and all later ones.
  void Interrupt();
  // Lets AwaitRing look again.
  void RingSelf() { Ring(rank_); }

 private:
  bool SpinFor(int peer, uint64_t number, absl::Time begin) const;
  Wait SleepFor(int peer, uint64_t number);
  bool Reached(int peer, uint64_t number) const;
  void Ring(int rank);

  const SharedSegment& segment_;
  const int rank_;
  const int size_;
  const Clock& clock_;
  SpinPolicy policy_;
  uint64_t ticks_ = 0;
  std::atomic<bool> interrupted_ = false;
};

}  // namespace dp::engine
