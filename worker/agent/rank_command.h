#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "dp/v1/workers.pb.h"
#include "proto/convert/time.h"
#include "worker/agent/launch_environment.h"
#include "worker/agent/log_spool.h"
#include "worker/agent/process_runner.h"
#include "worker/core/supervisor.h"

// From what the coordinator assigns to what a process needs. Pure.

namespace dp::worker {

// What every rank of this daemon is told besides its assignment.
struct RankHost {
  std::string coordinator;               // host:port
  std::string worker;                    // name
  std::string address;                   // of this host for peers
  std::string trainer;                   // path of dp-trainer
  std::string cuda_trainer = {};         // of the one for GPUs; empty: none can be used here
  std::string no_cuda_trainer = {};      // then: why
  std::vector<std::string> environment;  // of the daemon, NAME=value
  HostFacts facts = {};
};

// Program, environment (docs/worker.md and docs/command-jobs.md list it) and files of a rank. The
// job's own variables come last but cannot replace those named DP_*. `store` is where the ranks of
// a command meet. Errors: Unimplemented for a job without a program that this daemon knows.
absl::StatusOr<RankCommand> CommandFor(const v1::AssignedRank& rank, const RankHost& host,
                                       const StoreEndpoint& store, const LogSpool& spool);

RankKey KeyOf(const v1::AssignedRank& rank);
// What the supervisor needs of it.
// Beside the one for times, which it would hide.
using dp::FromProto;
AssignedRank FromProto(const v1::AssignedRank& rank);

}  // namespace dp::worker
