#include "worker/engine/collectives/shm/rank_ticks.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace dp::engine {
namespace {

// Ranks may be processes, so the futexes are not private ones. A wait returns when the word is not
// `seen` any more, and at times for no reason.
void SleepOn(std::atomic<uint32_t>& word, uint32_t seen) {
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, nullptr, nullptr, 0);
}
void WakeOne(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

constexpr int kRankBits = 8;
static_assert(kSharingRanksMax < 1 << kRankBits);

uint64_t Sought(int peer, uint64_t number) {
  return number << kRankBits | static_cast<uint64_t>(peer + 1);
}
bool IsSought(uint64_t awaits, int rank, uint64_t number) {
  return (awaits & ((1 << kRankBits) - 1)) == static_cast<uint64_t>(rank + 1) &&
         awaits >> kRankBits <= number;
}

}  // namespace

RankTicks::RankTicks(const SharedSegment& segment, int rank, int size, SpinPolicy policy,
                     const Clock& clock)
    : segment_(segment), rank_(rank), size_(size), clock_(clock), policy_(policy) {}

// No wake is lost. A sleeper stores what it awaits before it looks at the ticks. This rank stores
// its ticks before it looks at what is awaited. Both are sequentially consistent, so one of the two
// sees the other's store.
uint64_t RankTicks::Tick() {
  segment_.record(rank_).ticks.store(++ticks_);
  for (int r = 0; r < size_; ++r) {
    std::atomic<uint64_t>& awaits = segment_.record(r).awaits;
    uint64_t sought = awaits.load();
    // Taking the note away spares the sleeper a second ring before it is awake.
    if (sought != 0 && IsSought(sought, rank_, ticks_) && awaits.compare_exchange_strong(sought, 0))
      Ring(r);
  }
  return ticks_;
}

RankTicks::Wait RankTicks::AwaitTick(uint64_t number) {
  for (int r = 0; r < size_; ++r) {
    if (r == rank_ || Reached(r, number)) continue;
    if (const Wait wait = AwaitTickOf(r, number); wait != Wait::kReached) return wait;
  }
  return Wait::kReached;
}

RankTicks::Wait RankTicks::AwaitTickOf(int peer, uint64_t number) {
  const absl::Time begin = clock_.Now();
  const Wait wait = SpinFor(peer, number, begin) ? Wait::kReached : SleepFor(peer, number);
  policy_.Ended(clock_.Now() - begin);
  return wait;
}

// Reading the clock is pause enough between two looks.
bool RankTicks::SpinFor(int peer, uint64_t number, absl::Time begin) const {
  const absl::Time end = begin + policy_.budget();
  do {
    if (Reached(peer, number)) return true;
  } while (clock_.Now() < end && !interrupted_);
  return false;
}

RankTicks::Wait RankTicks::SleepFor(int peer, uint64_t number) {
  RankRecord& mine = segment_.record(rank_);
  for (;;) {
    const uint32_t bell = mine.bell.load();
    mine.awaits.store(Sought(peer, number));
    // A peer leaves after its last tick, so its ticks are read once more after its leave.
    const bool left = HasLeft(peer), interrupted = interrupted_;
    const bool reached = Reached(peer, number);
    if (reached || left || interrupted) {
      mine.awaits.store(0);
      return reached ? Wait::kReached : interrupted ? Wait::kInterrupted : Wait::kPeerLeft;
    }
    SleepOn(mine.bell, bell);
  }
}

void RankTicks::AwaitRing(const std::function<bool()>& answer) {
  std::atomic<uint32_t>& bell = segment_.record(rank_).bell;
  for (;;) {
    const uint32_t seen = bell.load();
    if (answer()) return;
    SleepOn(bell, seen);
  }
}

std::vector<int> RankTicks::Behind(uint64_t number) const {
  std::vector<int> behind;
  for (int r = 0; r < size_; ++r)
    if (r != rank_ && !Reached(r, number)) behind.push_back(r);
  return behind;
}

void RankTicks::Leave() {
  if (segment_.record(rank_).left.exchange(1) != 0) return;
  for (int r = 0; r < size_; ++r) Ring(r);
}

void RankTicks::Interrupt() {
  interrupted_ = true;
  Ring(rank_);
}

bool RankTicks::Reached(int peer, uint64_t number) const {
  return segment_.record(peer).ticks.load() >= number;
}

void RankTicks::Ring(int rank) {
  std::atomic<uint32_t>& bell = segment_.record(rank).bell;
  bell.fetch_add(1);
  WakeOne(bell);
}

}  // namespace dp::engine
