#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/id.h"
#include "server/core/job.h"
#include "server/core/state.h"

namespace dp::core {

// What must hold in every state of the machine, and from one state to the next. It remembers what
// it saw last, so one of it follows one coordinator. For tests and the simulator: a look costs as
// much as the state is large. Not thread-safe.
class Invariants {
 public:
  // One sentence for each that is broken; empty when all is well.
  std::vector<std::string> Broken(const State& state);

 private:
  // What of a job may only move in one direction.
  struct Seen {
    Generation generation;
    Revision version;
    bool terminal = false;
    int restarts = 0;
    std::vector<RankState> ranks;
  };

  void CheckProgress(const State& state, std::vector<std::string>& broken);
  static void CheckProgressOf(const Job& job, const Seen& before, std::vector<std::string>& broken);

  Epoch epoch_;
  Revision revision_;
  std::map<JobId, Seen> jobs_;
};

}  // namespace dp::core
