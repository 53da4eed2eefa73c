#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "dp/v1/workers.pb.h"
#include "proto/convert/time.h"
#include "worker/agent/accounts/account.h"
#include "worker/agent/launch/launch_environment.h"
#include "worker/agent/processes/process_runner.h"
#include "worker/agent/sandbox/sandbox.h"
#include "worker/agent/spool/log_spool.h"
#include "worker/core/supervisor.h"

// Turns an assignment into the command of a process. Pure.

namespace dp::worker {

// The facts that every rank of this daemon gets besides its assignment.
struct RankHost {
  std::string coordinator;               // host:port
  std::string credential_dir = {};       // the daemon's own; empty: it calls in plain text
  std::string worker;                    // name
  std::string address;                   // this host's, for peers
  std::string trainer;                   // path of dp-trainer
  std::string cuda_trainer = {};         // path of dp-trainer-cuda; empty: it cannot be used here
  std::string no_cuda_trainer = {};      // why not, if so
  std::vector<std::string> environment;  // the daemon's, NAME=value
  HostFacts facts = {};
  bool accept_other_users = false;  // who can write the rank's credential (dpctl's flag)
  bool new_privileges = false;      // whether setuid programs give ranks their privileges
  Sandbox sandbox = {};
};

// The program, environment (docs/worker.md and docs/command-jobs.md list it) and files of a rank.
// The job's own variables come last but cannot replace DP_* variables, and its secrets behind them.
// `store` is where the ranks of a command job meet. `run_as`: the rank's user, whose home and names
// replace the daemon's; none: the daemon's. Errors: Unimplemented the job has no program that this
// daemon knows. FailedPrecondition the assignment lacks a secret of the job, or a variable of the
// job would change which program runs. RankMounts::private_tmp stays empty.
absl::StatusOr<RankCommand> CommandFor(const v1::AssignedRank& rank, const RankHost& host,
                                       const StoreEndpoint& store, const LogSpool& spool,
                                       const std::optional<Account>& run_as = std::nullopt);

// Whether the rank calls the coordinator with its token. Otherwise it calls in plain text, as its
// daemon does.
bool HasCredential(const v1::AssignedRank& rank, const RankHost& host);

// The values of its secrets.
std::vector<std::string> SecretsOf(const v1::AssignedRank& rank);

RankKey KeyOf(const v1::AssignedRank& rank);
// Keeps dp::FromProto, for times, visible. The overload below, for the supervisor, would hide it.
using dp::FromProto;
AssignedRank FromProto(const v1::AssignedRank& rank);

}  // namespace dp::worker
