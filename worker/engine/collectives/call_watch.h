#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "worker/engine/collectives/call_ledger.h"
#include "worker/engine/collectives/farewells.h"
#include "worker/engine/collectives/links/group_links.h"

namespace dp::engine {

// Finds out whether the ranks of a group call different collectives, which then wait for each
// other. A rank whose operation has lasted a second tells rank 0 its latest calls by a link. If two
// calls differ, rank 0 tells everybody how, and ends last. A rank that leaves instead of calling is
// gone for the others. It also carries farewells, by which a rank that fails names the ranks that
// are the cause. Owned by a group; its links end before
// it. Thread-safe.
class CallWatch {
 public:
  // How often a thread that waits for an operation calls Look.
  static constexpr absl::Duration kLookInterval = absl::Milliseconds(500);

  // `end` makes an operation in progress look at difference(). Any thread may call it.
  CallWatch(int rank, int size, const GroupLinks& links, std::function<void()> end);

  // With these the group opens its links.
  PeerLinks::Options hooks();

  // An operation begins and ends.
  void Called(CallNote note) DP_EXCLUDES(mu_);
  void Ended() DP_EXCLUDES(mu_);
  void Look() DP_EXCLUDES(mu_);

  // Once this rank knows it: InvalidArgument names two ranks and states how their calls differ;
  // Unavailable names the ranks that have left while others call.
  absl::Status difference() const DP_EXCLUDES(mu_);
  // The same as the error of the operation `name`.
  absl::Status ErrorOf(absl::string_view name) const DP_EXCLUDES(mu_);
  // The same as the error of leaving. It is none for a rank whose leaving is the difference: nobody
  // needs it any more.
  absl::Status LeaveError() const DP_EXCLUDES(mu_);

  // The ranks that are the cause where the connections to these have ended.
  std::vector<int> Culprits(const std::vector<int>& ended) const DP_EXCLUDES(mu_);
  // Tells peers that this rank fails because of these ranks. Blocks until that has left, for half a
  // second at most. Only the first farewell counts.
  void SayFarewell(const std::vector<int>& culprits) DP_EXCLUDES(mu_);

 private:
  struct RunningCall {
    absl::Time begun;
    bool told = false;
  };

  void Heard(int peer, LinkFrame::Kind kind, const std::string& text) DP_EXCLUDES(mu_);
  void Told() DP_EXCLUDES(mu_);
  void Judge() DP_EXCLUDES(mu_);
  void Conclude() DP_EXCLUDES(mu_);
  void EndBecause(const absl::Status& difference) DP_EXCLUDES(mu_);

  const int rank_;
  const int size_;
  const GroupLinks& links_;
  const std::function<void()> end_;
  mutable Mutex mu_;
  CallLedger ledger_ DP_GUARDED_BY(mu_);
  std::optional<RunningCall> running_ DP_GUARDED_BY(mu_);
  absl::Status verdict_ DP_GUARDED_BY(mu_);  // rank 0's, which it tells the others first
  absl::Time judged_ DP_GUARDED_BY(mu_);
  absl::Status difference_ DP_GUARDED_BY(mu_);
  Farewells farewells_ DP_GUARDED_BY(mu_);
  bool said_farewell_ DP_GUARDED_BY(mu_) = false;
  CondVar told_changed_;
  bool told_ DP_GUARDED_BY(mu_) = false;  // since the farewell
};

}  // namespace dp::engine
