#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/daemon.h"
#include "tests/sim/environment.h"
#include "tests/sim/network.h"
#include "tests/sim/operator.h"
#include "tests/sim/process.h"
#include "tests/sim/service.h"
#include "tests/sim/simulated_driver.h"
#include "tests/sim/user.h"

namespace dp::sim {

struct Report {
  std::vector<std::string> broken;  // promises, each with its time
  int jobs = 0;
  int succeeded = 0;
  int faults = 0;
  int restarts = 0;
  int departures = 0;
  int short_leases_lost = 0;
};

// One cluster, one seed: a minute of work under faults, then peace, in which everything must end.
// All events follow from the seed.
class Simulation {
 public:
  Simulation(uint64_t seed, Plant plant, bool verbose);

  // Stops early at the first broken promise.
  Report Run();

 private:
  void StartDaemon(Node node, const std::string& name, std::shared_ptr<StateDir> state_dir);
  void SubmitJobs();
  // Draws when and where a job may run.
  core::Scheduling DrawScheduling();
  void DrawFaultKinds();
  void ScheduleFault();
  // A running daemon if there is one, else the last.
  Daemon& AnyDaemon();
  void Fault();
  void CrashCoordinator();
  void WatchCoordinator();
  void CrashDaemon(Daemon& daemon);
  void CutOff(Node node);
  void BreakProcess();
  // Starts a second daemon under the name of one that is cut off but alive. Both go on; the one
  // without the name waits for it.
  void ReplaceDaemon(Daemon& daemon);
  void MakePeace();
  void LookWhetherSettled();
  std::vector<std::string> Unsettled() const;
  // Checks that a rank which is blamed for a hang has hung.
  void CheckBlame(const core::Job& job, const core::Failure& failure);
  void CheckEnd();

  Environment env_;
  SimulatedDriver driver_;
  Service service_;
  Network network_;
  ProcessTable processes_;
  User user_;
  Operator operator_;
  std::vector<std::shared_ptr<Daemon>> daemons_;
  std::vector<int> fault_kinds_;
  Node last_node_ = 0;
  bool at_peace_ = false;
  bool settled_ = false;
  int faults_ = 0;
};

}  // namespace dp::sim
