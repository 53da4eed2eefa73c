#pragma once

#include <map>
#include <optional>
#include <string>

#include "server/core/job.h"
#include "server/driver/blocked_call.h"

namespace dp::server {

// Names the callers that wait in a job's store, as far as they are known now. PyTorch's protocol
// carries no identity, so for some callers only their end of the connection is known. A value; the
// job outlives it.
class CallerNames {
 public:
  // `ranks`: each rank by its end of the connection (ClientTable::Of).
  CallerNames(const core::Job& job, std::map<std::string, int> ranks)
      : job_(job), ranks_(std::move(ranks)) {}

  std::optional<int> rank_at(const std::string& peer) const;
  // "rank 3 on node2" if the rank is known. "a rank on node2" if only the address is known, and
  // belongs to exactly one worker of the job. Else the name that the caller's server gave.
  std::string who(const BlockedCall& call) const;

 private:
  // The one worker that has registered with the address; empty if none has, or several have.
  std::string WorkerAt(const std::string& peer) const;

  const core::Job& job_;
  const std::map<std::string, int> ranks_;
};

}  // namespace dp::server
