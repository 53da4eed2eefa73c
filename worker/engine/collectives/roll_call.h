#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/store/store.h"
#include "worker/engine/collectives/attendance.h"

namespace dp::engine {

// How the ranks of a group tell each other, through the store, who is there when an operation does
// not end: for a backend that does not say whom it waits for. Costs nothing while all goes well.
//
// Owned by its group. Two threads: the one that drives the operations tells what this rank has to
// say and reads the answer, and never waits for the store; another one calls Step, which does. The
// store is used in Step only.
class RollCall {
 public:
  struct Options {
    std::string prefix;       // rank r's key is "<prefix>/<r>/presence"
    absl::Duration interval;  // between two beats, and two readings
    absl::Duration patience;  // without a beat
  };
  // What this rank has to say and wants to know.
  struct Part {
    int64_t arrived = 0;     // operations that it has come to
    bool beating = false;    // it suspects something: it says that it lives
    Over over = Over::kNot;  // for good
    bool asking = false;     // it wants to know who is there
    // While asking: an answer that was read before this is too old.
    absl::Time fresh_from = absl::InfinitePast();
  };
  struct Answer {
    Attendance attendance;
    absl::Time read_at;  // when the last reading that succeeded began; InfinitePast: none
  };

  RollCall(Store& store, int rank, int size, Options options, const Clock& clock);

  void Tell(const Part& part) DP_EXCLUDES(mu_);
  Answer Ask() const DP_EXCLUDES(mu_);

  // Writes and reads what is due. A store that does not answer is asked again after an interval.
  void Step() DP_EXCLUDES(mu_);
  // Blocks until something is due, or Close.
  void AwaitDue() DP_EXCLUDES(mu_);
  void Close() DP_EXCLUDES(mu_);
  bool closed() const DP_EXCLUDES(mu_);

 private:
  // One exchange with the store.
  struct Exchange {
    bool writes = false;
    Presence mine;
    std::vector<int> reads;  // the ranks that are asked for
  };

  absl::Time Due() const DP_REQUIRES(mu_);
  absl::Time ReadDue() const DP_REQUIRES(mu_);
  bool MustWrite(absl::Time now) const DP_REQUIRES(mu_);
  bool MustRead(absl::Time now) const DP_REQUIRES(mu_);
  Exchange Begin(absl::Time now) DP_EXCLUDES(mu_);
  void End(const Exchange& exchange, absl::Time begun,
           const absl::StatusOr<std::vector<StoreResult>>& results) DP_EXCLUDES(mu_);
  std::string KeyOf(int rank) const;

  Store& store_;
  const int rank_;
  const int size_;
  const Options options_;
  const Clock& clock_;
  mutable Mutex mu_;
  CondVar changed_;
  Part part_ DP_GUARDED_BY(mu_);
  Presence said_ DP_GUARDED_BY(mu_);  // what the store has of this rank
  bool closed_ DP_GUARDED_BY(mu_) = false;
  absl::Time not_before_ DP_GUARDED_BY(mu_) = absl::InfinitePast();  // after an error of the store
  absl::Time wrote_at_ DP_GUARDED_BY(mu_) = absl::InfinitePast();
  Answer answer_ DP_GUARDED_BY(mu_);
};

}  // namespace dp::engine
