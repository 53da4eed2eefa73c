#pragma once

#include <map>
#include <optional>
#include <string>

#include "server/core/job.h"
#include "server/shell/blocked_call.h"

namespace dp::server {

// Who the callers are that wait in a job's store, as well as that can be told now: PyTorch's
// protocol carries no identity, so of some only the end of their connection is known. A value;
// the job outlives it.
class CallerNames {
 public:
  // `ranks` by their ends of connections (ClientTable::Of).
  CallerNames(const core::Job& job, std::map<std::string, int> ranks)
      : job_(job), ranks_(std::move(ranks)) {}

  std::optional<int> rank_at(const std::string& peer) const;
  // "rank 3 on node2"; "a rank on node2", where it is only known that its address is that of one
  // worker of the job; else what the caller's server says.
  std::string who(const BlockedCall& call) const;

 private:
  // Of the one worker that has registered with the address; empty: none has, or several have.
  std::string WorkerAt(const std::string& peer) const;

  const core::Job& job_;
  const std::map<std::string, int> ranks_;
};

}  // namespace dp::server
