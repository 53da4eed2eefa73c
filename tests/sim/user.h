#pragma once

#include <map>
#include <set>
#include <string>

#include "tests/sim/network.h"

namespace dp::sim {

// A user of dpctl: submits jobs, follows each to its end, cancels some.
class User {
 public:
  static constexpr Node kNode = 100;

  User(Environment& environment, Network& network) : env_(environment), network_(network) {}

  // Submits a job, and cancels it after `cancel_after` if that is finite.
  void Submit(const core::JobSpec& spec, const std::string& name, absl::Duration cancel_after);
  void Cancel(JobId job);

  // The jobs whose submission was acknowledged: the end that was seen, else kPending.
  const std::map<JobId, core::JobState>& jobs() const { return jobs_; }
  // Whether the job stays on record after its end.
  bool Lasting(JobId job) const { return passing_.count(job) == 0; }
  bool answered() const { return submissions_ == static_cast<int>(jobs_.size()); }

 private:
  void Watch(JobId job, Revision since);

  Environment& env_;
  Network& network_;
  int submissions_ = 0;
  std::map<JobId, core::JobState> jobs_;
  std::set<JobId> passing_;
};

}  // namespace dp::sim
