#pragma once

#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "client/connection.h"
#include "client/pause.h"
#include "worker/trainer/environment.h"

namespace dp::trainer {

// Reports to the coordinator, from a thread of its own, that the ranks of this generation have
// completed their first step. The coordinator thus tells generations that make progress from those
// that never do. Rank 0 only. Retries while the coordinator is away. The owner of the connection
// must cancel its calls before it destroys this.
class FirstStepReport {
 public:
  FirstStepReport(client::Connection& connection, const Environment& environment,
                  const Clock& clock);
  // Drops a report that has not been sent.
  ~FirstStepReport();

  // The first step is complete. Later calls are no-ops. Does not block; any thread.
  void Done() DP_EXCLUDES(mu_);
  // Waits, at most `within`, until the coordinator has answered the report. Returns at once if
  // there is nothing to report. For ranks that are about to exit. Returns false if the report is
  // still unanswered.
  bool AwaitTold(absl::Duration within) DP_EXCLUDES(mu_);

 private:
  void Run() DP_EXCLUDES(mu_);
  // Returns false when stopped.
  bool AwaitDone() DP_EXCLUDES(mu_);

  client::Connection& connection_;
  const Environment& environment_;
  const Clock& clock_;
  client::Pause pause_;

  Mutex mu_;
  CondVar changed_;
  bool done_ DP_GUARDED_BY(mu_) = false;
  bool told_ DP_GUARDED_BY(mu_) = false;
  bool stopped_ DP_GUARDED_BY(mu_) = false;
  std::jthread thread_;  // last: it starts when all other members exist
};

}  // namespace dp::trainer
