#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/id.h"
#include "server/core/job.h"
#include "server/core/state.h"

namespace dp::core {

// The rules for every state of the machine, and for the step from one state to the next. Remembers
// the last state, so an Invariants belongs to one coordinator. For tests and the simulator: the
// cost of a check grows with the state. Not thread-safe.
class Invariants {
 public:
  // One sentence for each broken rule; empty if all hold.
  std::vector<std::string> Broken(const State& state);

 private:
  // The parts of a job that only move in one direction.
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
