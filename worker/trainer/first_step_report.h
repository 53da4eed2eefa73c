#pragma once

#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "client/connection.h"
#include "client/pause.h"
#include "worker/trainer/environment.h"

namespace dp::trainer {

// Tells the coordinator, from a thread of its own, that the ranks of this generation have done
// their first step, so that a generation that gets so far is told from one that never does. Rank
// 0's. Rides out a coordinator that is away. Who owns the connection ends its calls before this is
// destroyed.
class FirstStepReport {
 public:
  FirstStepReport(client::WorldsConnection& connection, const Environment& environment,
                  const Clock& clock);
  // What has not been told by then is not told any more.
  ~FirstStepReport();

  // The step is done. Later calls do nothing. Never blocks for long; any thread.
  void Done() DP_EXCLUDES(mu_);
  // Waits until the coordinator has answered, `within` at most, where the step is done; else not at
  // all. For who is about to end. Returns whether all is told that there is.
  bool AwaitTold(absl::Duration within) DP_EXCLUDES(mu_);

 private:
  void Run() DP_EXCLUDES(mu_);
  // False when there is nothing to tell any more.
  bool AwaitDone() DP_EXCLUDES(mu_);

  client::WorldsConnection& connection_;
  const Environment& environment_;
  const Clock& clock_;
  client::Pause pause_;

  Mutex mu_;
  CondVar changed_;
  bool done_ DP_GUARDED_BY(mu_) = false;
  bool told_ DP_GUARDED_BY(mu_) = false;
  bool stopped_ DP_GUARDED_BY(mu_) = false;
  std::jthread thread_;  // last: it starts when all else is there
};

}  // namespace dp::trainer
