#pragma once

#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/host_port.h"
#include "base/mutex.h"
#include "worker/engine/collectives/nccl/nccl_pipeline.h"
#include "worker/engine/collectives/nccl/nccl_ras_report.h"

namespace dp::engine {

// The address of this host's RAS: NCCL_RAS_ADDR's value, or localhost:28028 if that is empty.
// Errors: InvalidArgument.
absl::StatusOr<HostPort> RasAddress(const std::string& from_environment);

// Asks RAS for its report, in JSON where it can, within about `timeout`.
// Errors: Unavailable nobody listens; DeadlineExceeded; ResourceExhausted the report is longer than
// any of ours could be.
absl::StatusOr<std::string> AskRas(const HostPort& address, absl::Duration timeout);

// RAS as the second opinion of one group, which owns it. Asks once, on a thread of its own that
// ends by itself. Only the destructor waits for that thread, for as long as AskRas takes. If RAS
// does not answer, there are no words.
class RasOpinion : public SecondOpinion {
 public:
  RasOpinion(HostPort address, const RasSelf& self);

  void Ask() override DP_EXCLUDES(mu_);
  std::string Words() const override DP_EXCLUDES(mu_);

 private:
  const HostPort address_;
  const RasSelf self_;
  mutable Mutex mu_;
  std::string words_ DP_GUARDED_BY(mu_);
  bool asked_ = false;   // used by the one thread that calls Ask
  std::jthread asking_;  // last: uses the rest
};

}  // namespace dp::engine
