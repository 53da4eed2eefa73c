#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "store/store.h"
#include "worker/engine/collectives/nccl/attendance.h"

namespace dp::engine {

// Lets the ranks of a group report to each other, through the store, who is present while an
// operation is stuck. For a backend that does not say whom it waits for. Costs nothing while all
// goes well.
//
// Owned by its group. Two threads use it. The thread that drives the operations calls Tell and Ask,
// and never waits for the store. Another thread calls Step, which alone uses the store.
class RollCall {
 public:
  struct Options {
    std::string prefix;       // rank r's key is "<prefix>/<r>/presence"
    absl::Duration interval;  // between two beats, and between two readings
    absl::Duration patience;  // without a beat, before a peer is silent
  };
  // This rank's state, and its question.
  struct Part {
    int64_t arrived = 0;     // operations that this rank has reached
    bool beating = false;    // it suspects something, and reports that it lives
    Over over = Over::kNot;  // once set, set for good
    bool asking = false;     // it wants to know who is present
    // While asking: an answer read before this is too old.
    absl::Time fresh_from = absl::InfinitePast();
  };
  struct Answer {
    Attendance attendance;
    absl::Time read_at;  // when the latest successful reading began; InfinitePast: none
  };

  RollCall(Store& store, int rank, int size, Options options, const Clock& clock);

  void Tell(const Part& part) DP_EXCLUDES(mu_);
  Answer Ask() const DP_EXCLUDES(mu_);

  // Writes and reads what is due. After an error of the store, retries one interval later.
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
    std::vector<int> reads;  // the ranks whose reports it reads
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
  Presence said_ DP_GUARDED_BY(mu_);  // this rank's report in the store
  bool closed_ DP_GUARDED_BY(mu_) = false;
  absl::Time not_before_ DP_GUARDED_BY(mu_) = absl::InfinitePast();  // set by an error of the store
  absl::Time wrote_at_ DP_GUARDED_BY(mu_) = absl::InfinitePast();
  Answer answer_ DP_GUARDED_BY(mu_);
};

}  // namespace dp::engine
